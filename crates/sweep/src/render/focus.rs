//! The findings as cost rows of FOCUS, so that a cost tool that reads a bill reads
//! the waste in it too. What is not known is null, which FOCUS forbids for some
//! columns of a bill: these rows are a part of one, not one.
//!
//! Source of the columns: FOCUS 1.2, "Columns"; extensions begin with `x_`.

use ebb_domain::finding::{Finding, PriceBasis};
use ebb_domain::fleet::Market;
use ebb_domain::heartbeat::Origin;
use ebb_domain::report::Report;
use ebb_domain::units::Usd;
use jiff::Timestamp;
use serde_json::json;

use super::csv::{decimal, maybe, slug, text};

/// Every column of FOCUS 1.2 in its order, then Ebb's own.
const COLUMNS: [&str; 63] = [
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
    "x_FindingId",
    "x_FindingKind",
    "x_Origin",
    "x_PriceBasis",
    "x_RecommendedAction",
    "x_SavingPerMonth",
];

/// A header line and one line a finding, each ended by CR LF: what was wasted within
/// its window.
pub fn focus(report: &Report) -> String {
    let mut out = COLUMNS.join(",");
    out.push_str("\r\n");
    for finding in &report.findings {
        let cells = COLUMNS.map(|column| cell(finding, column).unwrap_or_default());
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    out
}

/// `None` for null.
fn cell(finding: &Finding, column: &str) -> Option<String> {
    let resource = &finding.resource;
    let cost = finding.cost.as_ref();
    let service = Service::of(finding);
    Some(match column {
        "BillingCurrency" | "PricingCurrency" => cost.map(|_| "USD".to_owned())?,
        "ChargeCategory" => "Usage".to_owned(),
        "ChargeDescription" => text(&format!("{}: {}", finding.kind, finding.evidence)),
        "ChargeFrequency" => "Usage-Based".to_owned(),
        "ChargePeriodEnd" => time(finding.window.to),
        "ChargePeriodStart" => time(finding.window.from),
        "EffectiveCost" => decimal(cost.filter(|c| c.basis == PriceBasis::Bill)?.spent),
        "ListCost" => decimal(at_list_price(finding)?),
        "ListUnitPrice" => decimal(cost?.list_per_hour?.0),
        "PricingCategory" => match resource.market? {
            Market::OnDemand | Market::Reserved => "Standard".to_owned(),
            Market::Spot => "Dynamic".to_owned(),
        },
        "PricingQuantity" => {
            cost?.list_per_hour?;
            format!("{:.6}", finding.window.length().as_secs_f64() / 3600.0)
        }
        "PricingUnit" => cost?.list_per_hour.map(|_| "Hours".to_owned())?,
        "ProviderName" | "PublisherName" => is_of_aws(finding).then(|| "AWS".to_owned())?,
        "RegionId" => text(resource.region.as_str()),
        "ResourceId" => text(&resource.id),
        "ResourceName" => maybe(resource.name.as_deref()),
        "ResourceType" => service?.resource.to_owned(),
        "ServiceCategory" => service?.category.to_owned(),
        "ServiceName" => is_of_aws(finding).then(|| service.map(|s| s.name.to_owned()))??,
        "ServiceSubcategory" => service?.subcategory.to_owned(),
        "SkuPriceDetails" => {
            let it = resource.instance_type.as_ref()?;
            text(&json!({"InstanceType": it}).to_string())
        }
        "SubAccountId" => text(resource.account.as_ref()?.as_str()),
        "Tags" => text(&json!({"Owner": resource.owner.as_ref()?}).to_string()),
        "x_FindingId" => text(&finding.id),
        "x_FindingKind" => text(finding.kind.slug()),
        "x_Origin" => match resource.origin {
            Origin::Measured => "measured".to_owned(),
            Origin::Simulated => "simulated".to_owned(),
        },
        "x_PriceBasis" => slug(&cost?.basis),
        "x_RecommendedAction" => finding.remedy.action.to_string(),
        "x_SavingPerMonth" => decimal(cost?.saving_a_month),
        _ => return None,
    })
}

/// What was wasted, at the list price: it relates to what was wasted as the two
/// prices do.
fn at_list_price(finding: &Finding) -> Option<Usd> {
    let cost = finding.cost.as_ref()?;
    let list = i128::from(cost.list_per_hour?.0.micros());
    let spent = i128::from(cost.spent.micros()) * list;
    let listed = spent.checked_div(i128::from(cost.per_hour.0.micros()))?;
    i64::try_from(listed).ok().map(Usd::from_micros)
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Regions of AWS end with a number of their own, as in `eu-central-1`.
fn is_of_aws(finding: &Finding) -> bool {
    let region = finding.resource.region.as_str();
    let last = region.rsplit_once('-').map(|(_, last)| last);
    last.is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// What a resource is billed as.
#[derive(Clone, Copy)]
struct Service {
    name: &'static str,
    category: &'static str,
    subcategory: &'static str,
    resource: &'static str,
}

impl Service {
    /// `None` where the resource is billed by way of others, as a job is.
    fn of(finding: &Finding) -> Option<Self> {
        let resource = &finding.resource;
        match resource.id.as_str() {
            id if id.starts_with("vol-") => Some(Self {
                name: "Amazon Elastic Block Store",
                category: "Storage",
                subcategory: "Block Storage",
                resource: "Volume",
            }),
            id if id.starts_with("eipalloc-") => Some(Self {
                name: "Amazon Virtual Private Cloud",
                category: "Networking",
                subcategory: "Network Infrastructure",
                resource: "Elastic IP address",
            }),
            _ if resource.instance_type.is_some() => Some(Self {
                name: "Amazon Elastic Compute Cloud",
                category: "Compute",
                subcategory: "Virtual Machines",
                resource: "Instance",
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    /// The cells of a finding that are not null, by column.
    fn known(finding: &Finding) -> Vec<(&'static str, String)> {
        let cells = COLUMNS.map(|column| (column, cell(finding, column)));
        let known = cells.into_iter().filter_map(|(c, cell)| Some((c, cell?)));
        known.filter(|(_, cell)| !cell.is_empty()).collect()
    }

    #[test]
    fn what_is_known_has_its_column_and_the_rest_is_null() {
        let report = sample::small();
        let cells = known(&report.findings[0]).into_iter();
        let lines: Vec<String> = cells
            .map(|(column, cell)| format!("{column} {cell}"))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        BillingCurrency USD
        ChargeCategory Usage
        ChargeDescription Idle node: no workload for 3 h 05 min; background used 0.02 cores; step session of ana is there and does nothing
        ChargeFrequency Usage-Based
        ChargePeriodEnd 2026-03-04T12:00:00Z
        ChargePeriodStart 2026-03-04T08:55:00Z
        EffectiveCost 3.737000
        ListCost 3.737000
        ListUnitPrice 1.212000
        PricingCategory Standard
        PricingCurrency USD
        PricingQuantity 3.083333
        PricingUnit Hours
        ProviderName AWS
        PublisherName AWS
        RegionId eu-central-1
        ResourceId i-0aaa
        ResourceName gpu-notebook
        ResourceType Instance
        ServiceCategory Compute
        ServiceName Amazon Elastic Compute Cloud
        ServiceSubcategory Virtual Machines
        SkuPriceDetails "{""InstanceType"":""g5.2xlarge""}"
        Tags "{""Owner"":""ana""}"
        x_FindingId idle_node/eu-central-1/i-0aaa
        x_FindingKind idle_node
        x_Origin simulated
        x_PriceBasis bill
        x_RecommendedAction Stop
        x_SavingPerMonth 884.760000
        "#);
        let without_price = known(&report.findings[2]);
        let money = [
            "EffectiveCost",
            "ListCost",
            "BillingCurrency",
            "x_SavingPerMonth",
        ];
        assert!(
            without_price
                .iter()
                .all(|(column, _)| !money.contains(column))
        );
    }

    #[test]
    fn only_the_bill_is_an_effective_cost() {
        let report = sample::small();
        let has = |n: usize| cell(&report.findings[n], "EffectiveCost").is_some();
        assert_eq!((has(0), has(1), has(2)), (true, false, false));
    }

    #[test]
    fn every_finding_is_one_row_with_every_column_whatever_its_name() {
        for (report, findings) in [
            (sample::empty(), 0),
            (sample::hostile(), 1),
            (sample::many(1_000), 1_000),
        ] {
            let text = focus(&report);
            assert_eq!(text.matches("\r\n").count(), findings + 1);
            assert_eq!(text.matches('\n').count(), findings + 1);
            assert!(!text.contains(",=") && !text.contains("\u{1b}"));
        }
    }
}
