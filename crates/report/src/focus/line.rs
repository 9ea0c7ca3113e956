//! One row and its cells.

use std::collections::BTreeMap;

use ebb_model::cost::Cost;
use ebb_model::finding::Finding;
use ebb_model::inventory::instance::Market;
use ebb_model::report::bill_day::BilledDayShares;
use ebb_model::report::billed_resources::BilledResource;
use ebb_model::report::cost_shares::{CostDimension, CostName, CostShare, RestKind};
use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde_json::json;

use crate::cost_text;
use crate::csv::{decimal, maybe, slug, text};
use crate::focus::service::{About, Provider, Service, UNKNOWN};

/// Kind of a row, for `x_RowKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Cost of a machine on a day.
    Machine,
    /// Remaining cost of a service on a day.
    Service,
    /// Cost of tasks with the same names on a day.
    Tasks,
    /// Cost of machines on a day that belongs to no task.
    Untasked(RestKind),
    /// Remaining cost of a day.
    Rest,
    /// Waste without a charge.
    Finding,
}

/// One row.
#[derive(Debug, Clone)]
pub(crate) struct Line<'a> {
    kind: Kind,
    /// `None` if the day of the bill is not a date.
    period: Option<Window>,
    /// The day of the bill that is not a date.
    not_a_day: Option<&'a str>,
    pub(crate) billed: Usd,
    /// Cost at the list price; the billed cost if no list price is known.
    list: Usd,
    pub(crate) provider: Option<Provider>,
    service: Service<'a>,
    payer: Option<&'a AccountId>,
    estimated: bool,
    about: Subject<'a>,
    finding: Option<&'a Finding>,
}

/// The resource of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Subject<'a> {
    id: Option<&'a str>,
    name: Option<&'a str>,
    kind: Option<&'static str>,
    account: Option<&'a AccountId>,
    region: Option<&'a Region>,
    instance_type: Option<&'a InstanceType>,
    market: Option<Market>,
    owner: Option<&'a str>,
    tags: Option<&'a BTreeMap<String, String>>,
    names: Option<&'a BTreeMap<CostDimension, CostName>>,
    /// The cost centre of machines without a task.
    cost_centre: Option<&'a str>,
    list_per_hour: Option<UsdPerHour>,
    origin: Option<Origin>,
}

impl<'a> Line<'a> {
    /// `None` if the machine was not billed on that day.
    pub(crate) fn of_machine(
        one: &'a BilledResource,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Option<Self> {
        let billed = *one.by_day.get(&day.day)?;
        let region = one.region.as_ref();
        let of_region = region.and_then(|region| Provider::of_region(region.as_str()));
        let of_day = || {
            day.by_service
                .keys()
                .find_map(|name| Provider::of_service(name))
        };
        let provider = of_region.or_else(of_day);
        let mut line = Self::of_day(Kind::Machine, billed, day, payer);
        line.list = one.at_list_price(billed).unwrap_or(billed);
        line.service = Service::of_machines(provider);
        line.provider = provider;
        line.about = Subject {
            id: Some(&one.id),
            name: one.name.as_deref(),
            kind: Some("Instance"),
            account: one.account.as_ref(),
            region,
            instance_type: one.instance_type.as_ref(),
            market: one.market,
            owner: one.owner.as_deref(),
            tags: Some(&one.tags),
            names: None,
            cost_centre: None,
            list_per_hour: one.list_per_hour,
            origin: Some(one.origin),
        };
        Some(line)
    }

    /// The same row of a machine under the name that its service has on the bill.
    pub(crate) fn in_service(mut self, name: Option<&'a str>) -> Self {
        if let Some(name) = name {
            self.service = Service {
                name,
                ..self.service
            };
        }
        self
    }

    /// The same row with the origin of the report.
    pub(crate) fn of_origin(mut self, origin: Origin) -> Self {
        self.about.origin = Some(origin);
        self
    }

    /// The same row with the cost centre of its machines.
    pub(crate) fn of_cost_centre(mut self, name: Option<&'a str>) -> Self {
        self.about.cost_centre = name;
        self
    }

    /// The cost of tasks with the same names.
    pub(crate) fn of_tasks(
        share: &'a CostShare,
        billed: Usd,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Self {
        let mut line = Self::of_machines(Kind::Tasks, billed, day, payer);
        line.about.names = Some(&share.names);
        line
    }

    /// The cost of machines that belongs to no task.
    pub(crate) fn of_untasked(
        kind: RestKind,
        billed: Usd,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Self {
        Self::of_machines(Kind::Untasked(kind), billed, day, payer)
    }

    fn of_machines(
        kind: Kind,
        billed: Usd,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Self {
        let services = day.by_service.keys();
        let provider = services
            .into_iter()
            .find_map(|name| Provider::of_service(name));
        let mut line = Self::of_day(kind, billed, day, payer);
        line.service = Service::of_machines(provider);
        line.provider = provider;
        line
    }

    pub(crate) fn of_service(
        name: &'a str,
        billed: Usd,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Self {
        let mut line = Self::of_day(Kind::Service, billed, day, payer);
        line.service = Service::named(name);
        line.provider = Provider::of_service(name);
        line
    }

    pub(crate) fn of_rest(
        billed: Usd,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Self {
        Self::of_day(Kind::Rest, billed, day, payer)
    }

    fn of_day(
        kind: Kind,
        billed: Usd,
        day: &'a BilledDayShares,
        payer: Option<&'a AccountId>,
    ) -> Self {
        Self {
            kind,
            period: whole(&day.day),
            not_a_day: whole(&day.day).is_none().then_some(day.day.as_str()),
            billed,
            list: billed,
            provider: None,
            service: Service::named(UNKNOWN),
            payer,
            estimated: day.estimated,
            about: Subject::default(),
            finding: None,
        }
    }

    /// A row without a charge.
    pub(crate) fn of_finding(finding: &'a Finding, payer: Option<&'a AccountId>) -> Self {
        let resource = &finding.resource;
        let provider = Provider::of_region(resource.region.as_str());
        let about = About::from_finding(finding, provider);
        let cost = finding.cost.as_ref();
        Self {
            kind: Kind::Finding,
            period: Some(finding.window),
            not_a_day: None,
            billed: Usd::ZERO,
            list: Usd::ZERO,
            provider,
            service: about.service,
            payer,
            estimated: false,
            about: Subject {
                id: Some(&resource.id),
                name: resource.name.as_deref(),
                kind: Some(about.resource),
                account: resource.account.as_ref(),
                region: Some(&resource.region),
                instance_type: resource.instance_type.as_ref(),
                market: resource.market,
                owner: resource.owner.as_deref(),
                tags: Some(&resource.tags),
                names: None,
                cost_centre: None,
                list_per_hour: cost.and_then(|cost| cost.list_per_hour),
                origin: Some(resource.origin),
            },
            finding: Some(finding),
        }
    }

    /// `None` for null.
    pub(crate) fn cell(&self, column: &str) -> Option<String> {
        match column {
            _ if column.starts_with("x_") => self.of_ours(column),
            "BilledCost" | "ContractedCost" | "EffectiveCost" | "PricingCurrencyEffectiveCost" => {
                Some(decimal(self.billed))
            }
            "ListCost" => Some(decimal(self.list)),
            _ if column.starts_with("Charge") => self.of_charge(column),
            _ if column.starts_with("Billing") => self.of_billing(column),
            _ => self.of_subject(column),
        }
    }

    fn of_charge(&self, column: &str) -> Option<String> {
        Some(match column {
            "ChargeCategory" => self.category().to_owned(),
            "ChargeDescription" => text(&match self.not_a_day {
                Some(day) => format!("error: '{day}' is not a date; {}", self.description()),
                None => self.description(),
            }),
            "ChargeFrequency" => match self.kind {
                Kind::Finding => "One-Time".to_owned(),
                _ => "Usage-Based".to_owned(),
            },
            "ChargePeriodEnd" => time(self.period?.to),
            "ChargePeriodStart" => time(self.period?.from),
            _ => return None,
        })
    }

    fn of_billing(&self, column: &str) -> Option<String> {
        let account = || self.payer.map_or(UNKNOWN, AccountId::as_str);
        Some(match column {
            "BillingAccountId" | "BillingAccountName" => text(account()),
            "BillingAccountType" => {
                let provider = self.provider;
                provider.map_or(UNKNOWN, |_| "Billing Account").to_owned()
            }
            "BillingCurrency" => "USD".to_owned(),
            "BillingPeriodEnd" => time(self.month()?.to),
            "BillingPeriodStart" => time(self.month()?.from),
            _ => return None,
        })
    }

    fn of_subject(&self, column: &str) -> Option<String> {
        let about = &self.about;
        Some(match column {
            "PricingCategory" => match about.market {
                _ if self.category() != "Usage" => return None,
                Some(Market::Spot) => "Dynamic".to_owned(),
                Some(Market::OnDemand | Market::Reserved) | None => "Standard".to_owned(),
            },
            "PricingCurrency" => "USD".to_owned(),
            "InvoiceIssuerName" | "ProviderName" | "PublisherName" => {
                self.provider.map_or(UNKNOWN, Provider::name).to_owned()
            }
            "RegionId" | "RegionName" => maybe(about.region.map(Region::as_str)),
            "ResourceId" => maybe(about.id),
            "ResourceName" => maybe(about.name.filter(|name| about.id != Some(*name))),
            "ResourceType" => about.kind?.to_owned(),
            "ServiceCategory" => self.service.category.to_owned(),
            "ServiceName" => text(self.service.name),
            "ServiceSubcategory" => self.service.subcategory.to_owned(),
            "SubAccountId" | "SubAccountName" => text(about.account?.as_str()),
            "SubAccountType" => {
                about.account?;
                self.provider.map_or(UNKNOWN, Provider::account).to_owned()
            }
            "Tags" if about.names.is_some() => {
                let names = about.names?.iter();
                let names = names.filter_map(|(one, name)| Some((one.slug(), name.name()?)));
                let tags: BTreeMap<&str, &str> = names.collect();
                let tags = Some(tags).filter(|tags| !tags.is_empty())?;
                text(&json!(tags).to_string())
            }
            "Tags" if about.cost_centre.is_some() => {
                text(&json!({CostDimension::CostCentre.slug(): about.cost_centre?}).to_string())
            }
            "Tags" => {
                let tags = about.tags.filter(|tags| !tags.is_empty())?;
                text(&json!(tags).to_string())
            }
            _ => return None,
        })
    }

    fn of_ours(&self, column: &str) -> Option<String> {
        let about = &self.about;
        let of_bill = self.finding.is_none();
        Some(match column {
            "x_RowKind" => match self.kind {
                Kind::Machine => "machine",
                Kind::Service => "service",
                Kind::Tasks => "tasks",
                Kind::Untasked(RestKind::Findings) => "waste_in_findings",
                Kind::Untasked(RestKind::OtherWork) => "other_work",
                Kind::Untasked(RestKind::Idle) => "idle",
                Kind::Untasked(_) => "unwatched",
                Kind::Rest => "rest",
                Kind::Finding => "finding",
            }
            .to_owned(),
            "x_Origin" => match about.origin? {
                Origin::Measured => "measured".to_owned(),
                Origin::Simulated => "simulated".to_owned(),
            },
            "x_Owner" => maybe(about.owner),
            "x_InstanceType" => maybe(about.instance_type.map(InstanceType::as_str)),
            "x_Estimated" => of_bill.then(|| self.estimated.to_string())?,
            "x_ListPricePerHour" => decimal(about.list_per_hour?.0),
            _ => return of_finding(self.finding?, column),
        })
    }

    /// A credit without its own name is an adjustment, and so is a row without a charge.
    fn category(&self) -> &'static str {
        match self.kind {
            Kind::Service if self.service.name == "Tax" => "Tax",
            Kind::Machine | Kind::Service | Kind::Tasks | Kind::Untasked(_)
                if self.billed >= Usd::ZERO =>
            {
                "Usage"
            }
            _ => "Adjustment",
        }
    }

    fn description(&self) -> String {
        match (self.kind, self.finding) {
            (Kind::Finding, Some(finding)) => format!("{}: {}", finding.kind, finding.evidence),
            (Kind::Machine, _) => match self.about.instance_type {
                Some(it) => format!("{it}, one day"),
                None => "a deleted machine, one day".to_owned(),
            },
            (Kind::Tasks, _) => self.tasks_words(),
            (Kind::Untasked(kind), _) => format!("machines without a task, one day: {kind}"),
            (Kind::Service, _) if Service::has_machines(self.service.name) => format!(
                "{}, cost without a machine in these rows",
                self.service.name
            ),
            (Kind::Service, _) => self.service.name.to_owned(),
            _ => "other cost on the bill of this day".to_owned(),
        }
    }

    fn tasks_words(&self) -> String {
        let names = self.about.names.into_iter().flatten();
        let words = names
            .map(|(dimension, one)| format!("{dimension} {}", cost_text::name(*dimension, one)));
        let words: Vec<String> = words.collect();
        format!("tasks of one day: {}", words.join(", "))
    }

    /// Billing period: a calendar month in UTC.
    fn month(&self) -> Option<Window> {
        let period = self.period?;
        let last = match self.kind {
            Kind::Finding => period.to,
            _ => period.from,
        };
        let first = last.to_zoned(TimeZone::UTC).date().first_of_month();
        let next = first.saturating_add(1.month());
        Some(Window {
            from: begin_of(first)?,
            to: begin_of(next)?,
        })
    }
}

fn of_finding(finding: &Finding, column: &str) -> Option<String> {
    let cost = || finding.cost.as_ref();
    Some(match column {
        "x_FindingId" => text(&finding.id),
        "x_FindingKind" => text(finding.kind.slug()),
        "x_RecommendedAction" => finding.remedy.action.to_string(),
        "x_WastedCost" => decimal(cost()?.spent),
        "x_WastedPerHour" => decimal(cost()?.per_hour.0),
        "x_SavingPerMonth" => decimal(cost()?.saving_a_month),
        "x_CountedSavingPerMonth" => decimal(cost()?.in_totals().saving_a_month),
        "x_SavingIsUpperBound" => cost()?.basis.is_bound().to_string(),
        "x_RestCountedBy" => maybe(rest_counted_by(cost()?)),
        "x_PriceBasis" => slug(&cost()?.basis),
        "x_PriceAsOf" => time(cost()?.price_as_of?),
        _ => return None,
    })
}

fn rest_counted_by(cost: &Cost) -> Option<&str> {
    let counted = cost.counted.as_ref()?;
    counted.rest_counted_by.as_deref()
}

/// A day in UTC; `None` if the text is not a date.
fn whole(day: &str) -> Option<Window> {
    let date: Date = day.parse().ok()?;
    Some(Window {
        from: begin_of(date)?,
        to: begin_of(date.checked_add(1.day()).ok()?)?,
    })
}

fn begin_of(date: Date) -> Option<Timestamp> {
    let begin = date.to_zoned(TimeZone::UTC).ok()?;
    Some(begin.timestamp())
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
