//! The bill as cost rows of FOCUS, with the findings as further rows, so that a cost tool shows
//! both. The rows of a day add up to the cost of the day. A finding is a row without a charge. Its
//! amounts are in columns of Ebb, so that no dollar counts twice.
//!
//! FOCUS requires columns of a usage row that the bill does not contain. Quantities, unit prices,
//! SKUs, commitments, capacity reservations and invoices are null. An unknown account or provider
//! is `unknown`, because FOCUS allows no null there. Names of accounts and regions are their ids.
//! The bill is net and amortized, and so is `BilledCost`. If the day of a bill is not a date, its
//! rows have no periods, and their description begins with `error`.
//!
//! Source of the columns: FOCUS 1.2, "Columns"; extensions begin with `x_`.

pub mod line;
pub mod service;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write;

use ebb_model::report::Report;
use ebb_model::report::bill_day::BilledDayShares;
use ebb_model::report::cost_shares::{CostDay, CostName, RestKind};
use ebb_model::report::cost_table::CostMonth;
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::Usd;

use crate::focus::line::Line;
use crate::focus::service::Service;

/// Every column of FOCUS 1.2 in its order, then the columns of Ebb.
const COLUMNS: [&str; 74] = [
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
    "x_RowKind",
    "x_Origin",
    "x_Owner",
    "x_InstanceType",
    "x_Estimated",
    "x_FindingId",
    "x_FindingKind",
    "x_RecommendedAction",
    "x_WastedCost",
    "x_WastedPerHour",
    "x_ListPricePerHour",
    "x_SavingPerMonth",
    "x_CountedSavingPerMonth",
    "x_SavingIsUpperBound",
    "x_RestCountedBy",
    "x_PriceBasis",
    "x_PriceAsOf",
];

/// A header line, then one line for each charge and each finding, each with CR LF at the end. The
/// charges are machines by day and the remaining cost of each service by day.
pub fn focus(report: &Report) -> String {
    let payer = payer(report);
    let days = report.ledger.iter();
    let lines = days.flat_map(|day| of_day(report, day, payer));
    let findings = report.findings.iter();
    document(lines.chain(findings.map(|finding| Line::of_finding(finding, payer))))
}

/// The bill of a month, or of all days of the report, by the names of tasks: one line for each run,
/// pipeline, user and cost centre of a day, whose names are tags. The other lines are the cost of
/// machines without a task, and the other services. The lines of a day add up to its bill. Days
/// without a bill have no lines.
pub fn focus_of_costs(report: &Report, month: Option<&CostMonth>) -> String {
    let payer = payer(report);
    let days = report.ledger.iter();
    let days = days.filter(|day| month.is_none_or(|month| month.contains(&day.day)));
    document(days.flat_map(|day| costs_of_day(report, day, payer)))
}

fn document<'a>(lines: impl Iterator<Item = Line<'a>>) -> String {
    let mut out = COLUMNS.join(",");
    out.push_str("\r\n");
    for line in lines {
        let cells = COLUMNS.map(|column| line.cell(column).unwrap_or_default());
        // Writing to a string does not fail.
        let _ = write!(out, "{}\r\n", cells.join(","));
    }
    out
}

/// The rows of one day by the names of tasks, whose sum is the cost of the day.
fn costs_of_day<'a>(
    report: &'a Report,
    day: &'a BilledDayShares,
    payer: Option<&'a AccountId>,
) -> Vec<Line<'a>> {
    let costs = &report.costs;
    let tasks = costs.by_run.iter().filter_map(|share| {
        let cost = share.by_day.get(&day.day)?.cost(costs.rest);
        (cost != Usd::ZERO).then(|| Line::of_tasks(share, cost, day, payer))
    });
    let mut lines: Vec<Line<'_>> = tasks.collect();
    let rest = costs.days.iter().filter(|one| one.day == day.day);
    let rest = rest.flat_map(CostDay::rest_by_kind_and_centre);
    // These are in the rows of services and the last row.
    let rest =
        rest.filter(|(kind, _, _)| !matches!(kind, RestKind::Elsewhere | RestKind::Rounding));
    lines.extend(rest.map(|(kind, centre, usd)| {
        let line = Line::of_untasked(kind, usd, day, payer);
        line.of_cost_centre(centre.and_then(CostName::name))
    }));
    let lines = lines.into_iter().map(|line| line.of_origin(report.origin));
    with_other_services(lines.collect(), day, payer)
}

/// The billed account; `None` if several accounts are known, because any of them may pay for the
/// others.
fn payer(report: &Report) -> Option<&AccountId> {
    let billed = report.billed.resources.iter();
    let found = report.findings.iter();
    let accounts: BTreeSet<&AccountId> = billed
        .filter_map(|one| one.account.as_ref())
        .chain(found.filter_map(|finding| finding.resource.account.as_ref()))
        .collect();
    let mut accounts = accounts.into_iter();
    accounts.next().filter(|_| accounts.next().is_none())
}

/// The rows of one day, whose sum is the cost of the day.
fn of_day<'a>(
    report: &'a Report,
    day: &'a BilledDayShares,
    payer: Option<&'a AccountId>,
) -> Vec<Line<'a>> {
    let resources = report.billed.resources.iter();
    let machines: Vec<Line<'_>> = resources
        .filter_map(|one| Line::of_machine(one, day, payer))
        .collect();
    with_other_services(machines, day, payer)
}

/// All rows of one day. The rows of machines get the name of their service on the bill.
fn with_other_services<'a>(
    machines: Vec<Line<'a>>,
    day: &'a BilledDayShares,
    payer: Option<&'a AccountId>,
) -> Vec<Line<'a>> {
    let of_machines: Usd = machines.iter().map(|line| line.billed).sum();
    let home = service_of_machines(day, of_machines);
    let mut lines = other_services(day, (home, of_machines), payer);
    lines.extend(machines.into_iter().map(|line| line.in_service(home)));
    close(&mut lines, day, payer);
    lines
}

/// The service under which a bill has the machines: one of the known names, otherwise the smallest that
/// costs as much as they do.
fn service_of_machines(day: &BilledDayShares, of_machines: Usd) -> Option<&str> {
    let mut names = day.by_service.keys();
    let known = names.find(|name| Service::has_machines(name));
    let enough = || {
        let services = day.by_service.iter();
        let enough = services.filter(|(_, usd)| **usd >= of_machines);
        enough.min_by_key(|(_, usd)| **usd).map(|(name, _)| name)
    };
    known.or_else(enough).map(String::as_str)
}

/// The cost of each service without that of the machines.
fn other_services<'a>(
    day: &'a BilledDayShares,
    (home, of_machines): (Option<&str>, Usd),
    payer: Option<&'a AccountId>,
) -> Vec<Line<'a>> {
    let services = day.by_service.iter().map(|(name, usd)| {
        let elsewhere = match Some(name.as_str()) == home {
            true => *usd - of_machines,
            false => *usd,
        };
        Line::of_service(name, elsewhere, day, payer)
    });
    services.filter(|line| line.billed != Usd::ZERO).collect()
}

/// Adds the cost of the day that no line has, and completes the providers.
fn close<'a>(lines: &mut Vec<Line<'a>>, day: &'a BilledDayShares, payer: Option<&'a AccountId>) {
    let sum: Usd = lines.iter().map(|line| line.billed).sum();
    if sum != day.billed {
        lines.push(Line::of_rest(day.billed - sum, day, payer));
    }
    let provider = lines.iter().find_map(|line| line.provider);
    for line in lines {
        line.provider = line.provider.or(provider);
    }
}
