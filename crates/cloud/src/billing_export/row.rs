//! One row of the billing export, from JSON or CSV.
//!
//! Source: Google Cloud, "Structure of Detailed data export" and "Structure of Standard data
//! export".

use std::collections::BTreeMap;

use ebb_model::text_file::bad_lines::{BadLine, shown};
use ebb_model::text_file::csv::Record;
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;

use crate::data_unit::is_amount_of_data;

pub(super) const LINE: &str = "line";
const SERVICE: &str = "service.description";
const START: &str = "usage_start_time";
const COST: &str = "cost";
const CREDITS: &str = "credits.amount";
/// A column of a query: the promotional credits, which `credits.amount` then does not contain.
const PROMOTIONS: &str = "promotions.amount";
const UNIT: &str = "usage.unit";
const CURRENCY: &str = "currency";
const RATE: &str = "currency_conversion_rate";
const GLOBAL_NAME: &str = "resource.global_name";

/// The used fields of a row.
#[derive(Debug, PartialEq)]
pub(super) struct BillingRow {
    /// When the usage began.
    pub(super) start: Timestamp,
    /// The service, by its name in the bill.
    pub(super) service: String,
    /// The instance that causes the cost; `None` for other resources.
    pub(super) node: Option<NodeId>,
    /// Cost plus credits in billionths of a dollar: a row may be smaller than a millionth.
    pub(super) net_nanos: i128,
    /// The same without promotional credits, which are no part of the price of a machine.
    pub(super) price_nanos: i128,
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
}

/// A JSON number, or text, which BigQuery uses for decimals.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(f64),
    Text(String),
}

/// A row as the file contains it; other fields are ignored.
#[derive(Debug, Default, Deserialize)]
struct BillingRecord {
    service: Option<Service>,
    usage_start_time: Option<String>,
    resource: Option<Resource>,
    cost: Option<Number>,
    currency: Option<String>,
    currency_conversion_rate: Option<Number>,
    credits: Option<Vec<Credit>>,
    #[serde(skip)]
    promotions: Option<Number>,
    usage: Option<UsageAmount>,
    cost_type: Option<String>,
    labels: Option<Vec<Label>>,
}

#[derive(Debug, Deserialize)]
struct Service {
    description: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    global_name: Option<String>,
}

#[derive(Debug, Deserialize)]
struct UsageAmount {
    unit: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Credit {
    amount: Option<Number>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The type of a credit of a free trial or a grant. Other credits are discounts.
const PROMOTION: &str = "PROMOTION";

/// The cost type of usage. Taxes, adjustments and rounding are the others.
const REGULAR: &str = "regular";

#[derive(Debug, Deserialize)]
struct Label {
    key: Option<String>,
    value: Option<String>,
}

/// Parses a line of JSON.
pub(super) fn of_json(text: &str, line: u64) -> Result<BillingRow, BadLine> {
    let billing_record: BillingRecord = serde_json::from_str(text)
        .map_err(|error| BadLine::new(line, LINE, format!("not a row of the export: {error}")))?;
    billing_record.row(line)
}

impl BillingRecord {
    fn row(self, line: u64) -> Result<BillingRow, BadLine> {
        let bad = |field, why: String| BadLine::new(line, field, why);
        let service = self.service.and_then(|service| service.description);
        let service = service.filter(|name| !name.is_empty());
        let service = service.ok_or_else(|| bad(SERVICE, "is missing".to_owned()))?;
        let start = self.usage_start_time.unwrap_or_default();
        let start = time(&start).map_err(|why| bad(START, why))?;
        let number = |field, cell: Option<&Number>| {
            let value = cell.map(Number::value).transpose();
            value.map(Option::flatten).map_err(|why| bad(field, why))
        };
        let cost = number(COST, self.cost.as_ref())?;
        let cost = cost.ok_or_else(|| bad(COST, "is missing".to_owned()))?;
        let promotions = number(PROMOTIONS, self.promotions.as_ref())?;
        let (mut discounts, mut promotions) = (0.0, promotions.unwrap_or(0.0));
        for credit in self.credits.iter().flatten() {
            let sum = match credit.kind.as_deref() {
                Some(PROMOTION) => &mut promotions,
                _ => &mut discounts,
            };
            *sum += number(CREDITS, credit.amount.as_ref())?.unwrap_or(0.0);
        }
        let rate = number(RATE, self.currency_conversion_rate.as_ref())?;
        let rate = match self.currency.as_deref() {
            Some("USD") => 1.0,
            None | Some("") => return Err(bad(CURRENCY, "is missing".to_owned())),
            Some(other) => rate.filter(|rate| *rate > 0.0).ok_or_else(|| {
                let why = format!("required to convert {} to dollars", shown(other));
                bad(RATE, why)
            })?,
        };
        let dollars = |amount: f64| {
            let amount = nanos(amount / rate);
            amount.ok_or_else(|| bad(COST, "is not an amount of money".to_owned()))
        };
        let net_nanos = dollars(cost + discounts + promotions)?;
        let price_nanos = dollars(cost + discounts)?;
        let kind = self.cost_type.as_deref().unwrap_or_default();
        let is_usage = kind.is_empty() || kind == REGULAR;
        // The traffic of a machine is not part of its price.
        let unit = self.usage.and_then(|usage| usage.unit);
        let is_traffic = unit.is_some_and(|unit| is_amount_of_data(&unit));
        let resource = self.resource.filter(|_| is_usage && !is_traffic);
        let named = resource.and_then(|resource| resource.global_name);
        let node = match named.as_deref().and_then(instance) {
            Some(id) => Some(NodeId::new(id).map_err(|error| bad(GLOBAL_NAME, error.to_string()))?),
            None => None,
        };
        let labels = self.labels.into_iter().flatten();
        Ok(BillingRow {
            start,
            service,
            node,
            net_nanos,
            price_nanos,
            labels: labels
                .filter_map(|label| Some((label.key?, label.value?)))
                .collect(),
        })
    }
}

impl Number {
    /// `None` if the field is empty.
    fn value(&self) -> Result<Option<f64>, String> {
        let number = match self {
            Self::Plain(number) => Some(*number),
            Self::Text(text) if text.is_empty() => return Ok(None),
            Self::Text(text) => text.parse().ok(),
        };
        let number = number.filter(|number| number.is_finite());
        let text = || match self {
            Self::Text(text) => shown(text),
            Self::Plain(number) => number.to_string(),
        };
        number
            .map(Some)
            .ok_or_else(|| format!("'{}' is not a number", text()))
    }
}

/// The position of each field in a CSV row; CSV has no labels.
#[derive(Debug)]
pub(super) struct BillingColumns(BTreeMap<&'static str, usize>);

impl BillingColumns {
    /// The columns that are read, by the export's field names. A query result has `_` in place of
    /// the dot.
    const READ: [&'static str; 9] = [
        SERVICE,
        START,
        GLOBAL_NAME,
        UNIT,
        COST,
        CREDITS,
        PROMOTIONS,
        CURRENCY,
        RATE,
    ];

    /// An error contains the required columns that are missing.
    pub(super) fn from_header(header: &Record) -> Result<Self, Vec<&'static str>> {
        let plain = |name: &str| name.trim_start_matches('\u{feff}').replace('.', "_");
        let names: Vec<String> = header.iter().map(plain).collect();
        let at = |field: &str| names.iter().position(|name| *name == plain(field));
        let found = Self::READ.into_iter();
        let found: BTreeMap<_, _> = found
            .filter_map(|field| Some((field, at(field)?)))
            .collect();
        let required = [SERVICE, START, COST, CURRENCY].into_iter();
        let missing: Vec<_> = required
            .filter(|field| !found.contains_key(field))
            .collect();
        match missing.is_empty() {
            true => Ok(Self(found)),
            false => Err(missing),
        }
    }

    pub(super) fn has_credits(&self) -> bool {
        self.0.contains_key(CREDITS)
    }

    pub(super) fn row(&self, record: &Record, line: u64) -> Result<BillingRow, BadLine> {
        let text = |field: &str| -> Option<String> {
            let text = record.get(*self.0.get(field)?)?;
            (!text.is_empty()).then(|| text.to_owned())
        };
        let number = |field| text(field).map(Number::Text);
        let billing_record = BillingRecord {
            service: Some(Service {
                description: text(SERVICE),
            }),
            usage_start_time: text(START),
            resource: Some(Resource {
                global_name: text(GLOBAL_NAME),
            }),
            cost: number(COST),
            currency: text(CURRENCY),
            currency_conversion_rate: number(RATE),
            credits: Some(vec![Credit {
                amount: number(CREDITS),
                kind: None,
            }]),
            promotions: number(PROMOTIONS),
            usage: Some(UsageAmount { unit: text(UNIT) }),
            cost_type: None,
            labels: None,
        };
        billing_record.row(line)
    }
}

/// The instance id in `//compute.googleapis.com/projects/1/zones/europe-west6-a/instances/11`.
fn instance(global_name: &str) -> Option<&str> {
    let path = global_name.strip_prefix("//compute.googleapis.com/")?;
    let (before, id) = path.rsplit_once('/')?;
    before.ends_with("/instances").then_some(id)
}

/// Parses BigQuery's format (`2026-09-01 05:00:00 UTC`, or UTC without the zone), RFC 3339, or a
/// date.
fn time(text: &str) -> Result<Timestamp, String> {
    let plain = text.strip_suffix(" UTC").unwrap_or(text);
    let in_utc = || {
        let civil: DateTime = plain.parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let instant = plain.parse().ok().or_else(in_utc);
    instant.ok_or_else(|| {
        format!(
            "'{}' is not a time such as 2026-09-01 05:00:00 UTC",
            shown(text)
        )
    })
}

fn nanos(dollars: f64) -> Option<i128> {
    let nanos = (dollars * 1e9).round();
    (nanos.is_finite() && nanos.abs() < 1e18).then_some(nanos as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row in Google's documented format with these values.
    fn json(cost: &str, currency: &str, rate: &str, credits: &str, resource: &str) -> String {
        format!(
            r#"{{"billing_account_id":"0-0-0","service":{{"id":"6F81-5844-456A","description":"Compute Engine"}},
            "sku":{{"description":"N2 Instance Core running in Zurich"}},
            "usage_start_time":"2026-09-01 05:00:00 UTC","usage_end_time":"2026-09-01 06:00:00 UTC",
            "project":{{"id":"lab"}},"labels":[{{"key":"project","value":"tides"}}],
            "resource":{resource},"cost":{cost},"currency":"{currency}",
            "currency_conversion_rate":{rate},"credits":[{credits}],"cost_type":"regular"}}"#
        )
    }

    const OF_11: &str = r#"{"name":"quiet","global_name":"//compute.googleapis.com/projects/4/zones/europe-west6-a/instances/11"}"#;

    #[test]
    fn a_row_is_net_of_its_credits_in_dollars_and_names_its_instance() {
        let check = |text: String, nanos: i128, node: Option<&str>| {
            let row = of_json(&text, 1).expect("a row");
            assert_eq!(row.net_nanos, nanos, "{text}");
            assert_eq!(row.node.as_ref().map(NodeId::as_str), node, "{text}");
            assert_eq!(row.start.to_string(), "2026-09-01T05:00:00Z");
            assert_eq!(row.service, "Compute Engine");
            assert_eq!(row.labels["project"], "tides");
        };
        let plain = json("0.25", "USD", "1", "", OF_11);
        check(plain, 250_000_000, Some("11"));
        let credits = r#"{"amount":-0.05},{"name":"free","amount":"-0.1"}"#;
        let credited = json("\"0.25\"", "USD", "1", credits, OF_11);
        check(credited, 100_000_000, Some("11"));
        let grant = r#"{"amount":-0.05,"type":"DISCOUNT"},{"amount":-0.2,"type":"PROMOTION"}"#;
        let granted = json("0.25", "USD", "1", grant, OF_11);
        let row = of_json(&granted, 1).expect("a row");
        assert_eq!((row.net_nanos, row.price_nanos), (0, 200_000_000));
        let unit = |unit: &str| {
            let usage = format!(r#""usage":{{"amount":7,"unit":"{unit}"}},"currency""#);
            json("0.25", "USD", "1", "", OF_11).replace("\"currency\"", &usage)
        };
        check(unit("bytes"), 250_000_000, None);
        check(unit("byte-seconds"), 250_000_000, Some("11"));
        let tax = json("0.25", "USD", "1", "", OF_11).replace("regular", "tax");
        check(tax, 250_000_000, None);
        let francs = json("0.2", "CHF", "0.8", "", OF_11);
        check(francs, 250_000_000, Some("11"));
        let disk = OF_11.replace("instances", "disk");
        check(json("1e-8", "USD", "1", "", &disk), 10, None);
        check(json("0.25", "USD", "null", "", "null"), 250_000_000, None);
    }

    #[test]
    fn a_row_that_cannot_be_read_is_named_by_its_field() {
        let check = |text: &str, expect: &str| {
            let bad = of_json(text, 7).expect_err(expect).to_string();
            assert!(bad.starts_with(&format!("7: {expect}")), "{bad}");
        };
        check("{", "line: not a row of the export");
        check("{}", "service.description: is missing");
        let whole = json("0.25", "USD", "1", "", OF_11);
        let without = |from: &str, to: &str| whole.replace(from, to);
        check(&without("05:00:00", "25:00:00"), "usage_start_time: '2026-");
        check(&without("0.25", "\"much\""), "cost: 'much' is not a number");
        check(&without("0.25", "null"), "cost: is missing");
        check(&without("\"USD\"", "null"), "currency: is missing");
        check(
            &json("1", "EUR", "null", "", OF_11),
            "currency_conversion_rate: required to convert EUR",
        );
        check(
            &json("1e300", "USD", "1", "", OF_11),
            "cost: is not an amount of money",
        );
        check(
            &without("instances/11", "instances/a b"),
            "resource.global_name: node id 'a b'",
        );
    }

    #[test]
    fn times_are_read_as_bigquery_and_others_write_them() {
        let check = |text: &str, expect: Option<&str>| {
            let read = time(text).ok().map(|at| at.to_string());
            assert_eq!(read.as_deref(), expect, "{text}");
        };
        check("2026-09-01 05:00:00 UTC", Some("2026-09-01T05:00:00Z"));
        check("2026-09-01 05:00:00", Some("2026-09-01T05:00:00Z"));
        check("2026-09-01 05:00:00+00", Some("2026-09-01T05:00:00Z"));
        check(
            "2026-09-01T07:00:00.5+02:00",
            Some("2026-09-01T05:00:00.5Z"),
        );
        check("2026-09-01", Some("2026-09-01T00:00:00Z"));
        check("September", None);
        check("", None);
    }
}
