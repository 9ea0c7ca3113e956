//! One row of an export as a charge: its effective cost, its service and its machine.
//!
//! The cost is what Cost Explorer names net amortized cost: usage under a reservation or a Savings
//! Plan at its effective cost, the unused part of a commitment as a fee, and no purchase. Credits,
//! refunds, discounts and taxes count.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ebb_model::text_file::bad_lines::shown;
use ebb_telemetry::identity::NodeId;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::amount::Amount;
use super::columns::{ExportColumn, ExportForm};
use crate::data_unit::is_amount_of_data;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell<'a> {
    /// Missing or null.
    Absent,
    Text(&'a str),
    Amount(Option<Amount>),
    Time(Option<Timestamp>),
    Tags(Vec<(&'a str, &'a str)>),
    /// A value of another type.
    Other,
}

/// A row: the value of each column.
pub(super) trait ExportRow {
    fn cell(&self, column: ExportColumn) -> Cell<'_>;

    /// A hash of all values, also of columns that are not read; `None` if they are not known.
    fn hash_of_all(&self) -> Option<u64>;
}

/// A column with an invalid value, and the reason.
pub(super) type BadColumn = (&'static str, String);

/// A row that is not part of the bill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowProblem {
    /// Its amount is in another currency.
    Currency(String),
    Column(BadColumn),
}

impl From<BadColumn> for RowProblem {
    fn from(bad: BadColumn) -> Self {
        Self::Column(bad)
    }
}

/// A charge of the bill.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Charge<'a> {
    pub(super) start: Timestamp,
    /// `None` if the export does not have it.
    pub(super) end: Option<Timestamp>,
    pub(super) service: Cow<'a, str>,
    /// The account; empty text if it is unknown.
    pub(super) account: &'a str,
    /// The type of usage; empty text if it is unknown.
    pub(super) usage: &'a str,
    /// The id of the line item with its period, which a report has once; `None` without an id.
    pub(super) line_item: Option<(&'a str, &'a str)>,
    /// Whether the row is the usage of a resource with an id.
    pub(super) is_usage_of_resource: bool,
    /// The machine that causes the cost.
    pub(super) node: Option<NodeId>,
    pub(super) amount: Amount,
    /// Whether a period of more than a day is divided among its days. Cost Explorer shows a tax, a
    /// credit or a purchase on the day on which it begins.
    pub(super) is_spread: bool,
    /// Why requested tags cannot be read.
    pub(super) bad_tags: Option<BadColumn>,
    /// The values of the requested tags, in their order; empty text without a value.
    pub(super) tags: Vec<Cow<'a, str>>,
}

/// The machine and the period of an invalid row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedCharge {
    pub(super) start: Timestamp,
    pub(super) end: Option<Timestamp>,
    pub(super) node: NodeId,
}

/// Services of AWS by product code, with their names in Cost Explorer; other codes stay.
///
/// Source: Cost Explorer's dimension `SERVICE`, and `line_item_product_code` of Cost and Usage
/// Reports.
const SERVICES: [(&str, &str); 12] = [
    ("AWSGlue", "AWS Glue"),
    ("AWSLambda", "AWS Lambda"),
    ("AWSQueueService", "Amazon Simple Queue Service"),
    ("AmazonECS", "Amazon Elastic Container Service"),
    ("AmazonEFS", "Amazon Elastic File System"),
    ("AmazonFSx", "Amazon FSx"),
    ("AmazonOmics", "AWS HealthOmics"),
    ("AmazonRDS", "Amazon Relational Database Service"),
    ("AmazonS3", "Amazon Simple Storage Service"),
    ("AmazonSageMaker", "Amazon SageMaker"),
    ("AmazonVPC", "Amazon Virtual Private Cloud"),
    ("ElasticMapReduce", "Amazon Elastic MapReduce"),
];

const EC2: &str = "AmazonEC2";
const MACHINES: &str = "Amazon Elastic Compute Cloud - Compute";
const EC2_OTHER: &str = "EC2 - Other";
const TAX: &str = "Tax";

/// Reads one row.
pub(super) fn read<'a>(
    row: &'a impl ExportRow,
    form: ExportForm,
    tags: &[String],
) -> Result<Charge<'a>, RowProblem> {
    let values = Values { row, form };
    let currency = values.text(ExportColumn::Currency)?.unwrap_or_default();
    if currency != "USD" {
        return Err(RowProblem::Currency(shown(currency)));
    }
    let start = values.time(ExportColumn::Start)?;
    let start = start.ok_or_else(|| values.missing(ExportColumn::Start))?;
    let end = values.time(ExportColumn::End)?.filter(|end| *end > start);
    let kind = values.text(ExportColumn::Type)?;
    let kind = kind.ok_or_else(|| values.missing(ExportColumn::Type))?;
    let service = values.text(ExportColumn::Service)?.unwrap_or("(unknown)");
    let machine = values.machine(service)?;
    let amount = match form {
        ExportForm::Cur2 => values.net_amortized(kind)?,
        ExportForm::Focus => values.required_amount(ExportColumn::Cost)?,
    };
    let service = match (form, kind) {
        (_, "Tax") => Cow::Borrowed(TAX),
        (ExportForm::Focus, _) => Cow::Borrowed(service),
        (ExportForm::Cur2, _) => Cow::Borrowed(service_name(service, machine.is_some())),
    };
    // A purchase, a credit or a tax is no price of an hour, nor is the correction of an earlier bill.
    let is_correction = values.text(ExportColumn::Class)? == Some("Correction");
    let node = machine.filter(|_| is_usage(kind, form) && !is_correction);
    // A tag that cannot be read does not change what the row costs.
    let (tags, bad_tags) = match values.tag_values(tags) {
        Ok(values) => (values, None),
        Err(bad) => (vec![Cow::Borrowed(""); tags.len()], Some(bad)),
    };
    Ok(Charge {
        start,
        end,
        service,
        account: values.plain(ExportColumn::Account),
        usage: values.plain(ExportColumn::UsageType),
        line_item: Some(values.plain(ExportColumn::LineItem))
            .filter(|id| !id.is_empty())
            .map(|id| (id, values.plain(ExportColumn::Interval))),
        is_usage_of_resource: is_usage(kind, form)
            && !values.plain(ExportColumn::Resource).is_empty(),
        node,
        amount,
        is_spread: match form {
            ExportForm::Cur2 => !matches!(kind, "Tax" | "Credit" | "Refund" | "Fee"),
            ExportForm::Focus => kind == "Usage",
        },
        bad_tags,
        tags,
    })
}

/// The machine and the period of a row that cannot be read; `None` if it names no machine or time.
pub(super) fn read_refused(row: &impl ExportRow, form: ExportForm) -> Option<RefusedCharge> {
    let values = Values { row, form };
    let start = values.time(ExportColumn::Start).ok()??;
    let end = values.time(ExportColumn::End).ok().flatten();
    let service = values.text(ExportColumn::Service).ok()??;
    let kind = values.text(ExportColumn::Type).ok().flatten();
    let node = values.machine(service).ok()??;
    kind.is_none_or(|kind| is_usage(kind, form))
        .then_some(RefusedCharge {
            start,
            end: end.filter(|end| *end > start),
            node,
        })
}

/// Whether a charge is for the use of a resource. Its discount is part of it.
///
/// Source: AWS Data Exports, `line_item_line_item_type`; FOCUS, `ChargeCategory`.
fn is_usage(kind: &str, form: ExportForm) -> bool {
    match form {
        ExportForm::Cur2 => kind.ends_with("Usage") || kind.ends_with("Discount"),
        ExportForm::Focus => kind == "Usage",
    }
}

fn service_name(code: &str, is_machine: bool) -> &str {
    if code == EC2 {
        return if is_machine { MACHINES } else { EC2_OTHER };
    }
    let known = SERVICES.iter().find(|(known, _)| *known == code);
    known.map_or(code, |(_, name)| name)
}

/// The values of a row, with errors that name their column.
struct Values<'a, R> {
    row: &'a R,
    form: ExportForm,
}

impl<'a, R: ExportRow> Values<'a, R> {
    fn bad(&self, column: ExportColumn, why: impl Into<String>) -> BadColumn {
        (column.name(self.form), why.into())
    }

    fn missing(&self, column: ExportColumn) -> BadColumn {
        self.bad(column, "is missing")
    }

    /// `None` if it is missing or empty.
    fn text(&self, column: ExportColumn) -> Result<Option<&'a str>, BadColumn> {
        match self.row.cell(column) {
            Cell::Absent => Ok(None),
            Cell::Text(text) => Ok((!text.is_empty()).then_some(text)),
            _ => Err(self.bad(column, "is not text")),
        }
    }

    /// The text of a column that only distinguishes rows, such as the accounts of two equal fees. Any
    /// value is valid.
    fn plain(&self, column: ExportColumn) -> &'a str {
        match self.row.cell(column) {
            Cell::Text(text) => text,
            _ => "",
        }
    }

    fn time(&self, column: ExportColumn) -> Result<Option<Timestamp>, BadColumn> {
        let (time, text) = match self.row.cell(column) {
            Cell::Absent | Cell::Text("") => return Ok(None),
            Cell::Time(time) => (time, String::new()),
            Cell::Text(text) => (parse_time(text), format!("'{}' ", shown(text))),
            _ => (None, String::new()),
        };
        let why = || format!("{text}is not a time such as 2026-10-01T00:00:00Z");
        time.map(Some).ok_or_else(|| self.bad(column, why()))
    }

    fn amount(&self, column: ExportColumn) -> Result<Option<Amount>, BadColumn> {
        let (amount, text) = match self.row.cell(column) {
            Cell::Absent | Cell::Text("") => return Ok(None),
            Cell::Amount(amount) => (amount, String::new()),
            Cell::Text(text) => (Amount::parse(text), format!("'{}' ", shown(text))),
            _ => (None, String::new()),
        };
        let why = || format!("{text}is not an amount below 1000000000");
        amount.map(Some).ok_or_else(|| self.bad(column, why()))
    }

    fn required_amount(&self, column: ExportColumn) -> Result<Amount, BadColumn> {
        let amount = self.amount(column)?;
        amount.ok_or_else(|| self.missing(column))
    }

    /// The amount after discounts, or else the other one. Accounts without a discount have no net
    /// amounts.
    fn net_amount(&self, net: ExportColumn, gross: ExportColumn) -> Result<Amount, BadColumn> {
        match self.amount(net)? {
            Some(amount) => Ok(amount),
            None => self.required_amount(gross),
        }
    }

    /// The net amortized cost of a line of a Cost and Usage Report.
    ///
    /// Source: AWS Well-Architected Labs, CUR query library, "Amortized Cost by Charge Type"; for
    /// net costs, AWS Cost and Usage Reports, "Savings Plans details" and "Reservation details".
    fn net_amortized(&self, kind: &str) -> Result<Amount, BadColumn> {
        use ExportColumn as C;
        match kind {
            "SavingsPlanCoveredUsage" => self.net_amount(C::NetPlanCost, C::PlanCost),
            "SavingsPlanRecurringFee" => self.unused_commitment(),
            "SavingsPlanNegation" | "SavingsPlanUpfrontFee" => Ok(Amount::ZERO),
            "DiscountedUsage" => self.net_amount(C::NetReservedCost, C::ReservedCost),
            "RIFee" => {
                let upfront = self.net_amount(C::NetUnusedUpfront, C::UnusedUpfront)?;
                Ok(upfront + self.net_amount(C::NetUnusedRecurring, C::UnusedRecurring)?)
            }
            // The purchase of a reservation, which the lines above contain.
            "Fee" if self.text(C::Reservation)?.is_some() => Ok(Amount::ZERO),
            _ => self.net_amount(C::NetCost, C::Cost),
        }
    }

    /// The part of a Savings Plan that nothing used, in the ratio of its net to its gross price.
    fn unused_commitment(&self) -> Result<Amount, BadColumn> {
        use ExportColumn as C;
        let committed = self.required_amount(C::Commitment)?;
        let unused = committed - self.required_amount(C::UsedCommitment)?;
        let sum = |upfront, recurring| -> Result<Option<Amount>, BadColumn> {
            let parts = (self.amount(upfront)?, self.amount(recurring)?);
            Ok(match parts {
                (None, None) => None,
                (upfront, recurring) => {
                    Some(upfront.unwrap_or_default() + recurring.unwrap_or_default())
                }
            })
        };
        let net = sum(C::NetPlanUpfront, C::NetPlanRecurring)?;
        let gross = sum(C::PlanUpfront, C::PlanRecurring)?;
        let ratio = net.zip(gross).filter(|(_, gross)| *gross != Amount::ZERO);
        let Some((net, gross)) = ratio else {
            return Ok(unused);
        };
        let unused = unused.in_ratio(net, gross);
        unused.ok_or_else(|| self.bad(C::NetPlanRecurring, "is too large"))
    }

    /// The machine that a row is about. The traffic of a machine is not part of its price, as in
    /// Cost Explorer.
    fn machine(&self, service: &str) -> Result<Option<NodeId>, BadColumn> {
        let Some(resource) = self.text(ExportColumn::Resource)? else {
            return Ok(None);
        };
        let usage = self.text(ExportColumn::UsageType)?.unwrap_or_default();
        let unit = self.text(ExportColumn::Unit)?.unwrap_or_default();
        let is_traffic = usage.ends_with("Bytes") || is_amount_of_data(unit);
        let is_compute = match self.form {
            ExportForm::Cur2 => service == EC2,
            ExportForm::Focus => {
                let category = self.text(ExportColumn::ServiceCategory)?;
                category.is_some_and(|category| category.eq_ignore_ascii_case("Compute"))
            }
        };
        if is_traffic || !is_compute {
            return Ok(None);
        }
        // The cost of a resource with an invalid name stays in the sum of its service.
        Ok(machine_id(resource, self.form).and_then(|id| NodeId::new(id).ok()))
    }

    /// The value of each of these tags, empty without one.
    fn tag_values(&self, tags: &[String]) -> Result<Vec<Cow<'a, str>>, BadColumn> {
        if tags.is_empty() {
            return Ok(Vec::new());
        }
        let bad = |text: &str| {
            let why = format!("{text}is not a map of keys and values");
            self.bad(ExportColumn::Tags, why)
        };
        match self.row.cell(ExportColumn::Tags) {
            Cell::Absent | Cell::Text("") => Ok(vec![Cow::Borrowed(""); tags.len()]),
            Cell::Tags(found) => {
                let keys = || found.iter().map(|(key, _)| *key);
                let value = |tag: &String| {
                    let at = position_of(tag, keys);
                    Cow::Borrowed(at.map_or("", |at| found[at].1))
                };
                Ok(tags.iter().map(value).collect())
            }
            Cell::Text(text) => {
                // `null` are no tags.
                let found: Option<BTreeMap<String, Value>> =
                    serde_json::from_str(text).map_err(|_| bad(&format!("'{}' ", shown(text))))?;
                let found: Vec<(String, Value)> = found.into_iter().flatten().collect();
                let keys = || found.iter().map(|(key, _)| key.as_str());
                let value = |tag: &String| match position_of(tag, keys).map(|at| &found[at].1) {
                    None | Some(Value::Null) => Cow::Borrowed(""),
                    Some(Value::String(text)) => Cow::Owned(text.clone()),
                    Some(other) => Cow::Owned(other.to_string()),
                };
                Ok(tags.iter().map(value).collect())
            }
            _ => Err(bad("")),
        }
    }
}

/// The node id in the id of a machine: an instance id, or the end of an ARN or of a path of Google or
/// Azure. Another resource of a cloud is no machine. Outside of clouds, the resource is the machine.
fn machine_id(resource: &str, form: ExportForm) -> Option<Cow<'_, str>> {
    let is_instance = |id: &str| {
        let hex = id.strip_prefix("i-");
        hex.is_some_and(|hex| hex.len() >= 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    if let Some((before, id)) = resource.rsplit_once('/') {
        let is_one =
            before.ends_with("/instances") || (before.ends_with(":instance") && is_instance(id));
        return match is_one {
            true => Some(Cow::Borrowed(id)),
            false => azure_machine(before, id),
        };
    }
    let is_machine = match form {
        ExportForm::Cur2 => is_instance(resource),
        ExportForm::Focus => {
            let is_other = resource.contains(':') || is_ec2_resource(resource);
            is_instance(resource) || !is_other
        }
    };
    is_machine.then_some(Cow::Borrowed(resource))
}

/// The name of the machine `id` of Azure in the folder `before`. A machine of the scale set `X` with
/// the number 3 has the name `X_3`. The folders have any case.
fn azure_machine<'r>(before: &str, id: &'r str) -> Option<Cow<'r, str>> {
    let mut folders = before.rsplit('/');
    let is = |folder: Option<&str>, name: &str| {
        folder.is_some_and(|folder| folder.eq_ignore_ascii_case(name))
    };
    if !is(folders.next(), "virtualMachines") {
        return None;
    }
    let set = folders.next().unwrap_or_default();
    let is_of_set = is(folders.next(), "virtualMachineScaleSets");
    Some(match is_of_set {
        true => Cow::Owned(format!("{set}_{id}")),
        false => Cow::Borrowed(id),
    })
}

/// Whether an id has the form of EC2, such as `vol-0123456789abcdef0`, and is no instance.
fn is_ec2_resource(id: &str) -> bool {
    let Some((kind, hex)) = id.rsplit_once('-') else {
        return false;
    };
    let is_id = matches!(hex.len(), 8 | 17) && hex.bytes().all(|b| b.is_ascii_hexdigit());
    is_id && kind != "i" && !kind.contains('-')
}

/// The position of a tag among the keys of an export. A key with exactly this name is preferred.
fn position_of<'k, K: Iterator<Item = &'k str>>(tag: &str, keys: impl Fn() -> K) -> Option<usize> {
    let exact = |key: &str| key == tag || key.strip_prefix("user:") == Some(tag);
    keys()
        .position(exact)
        .or_else(|| keys().position(|key| is_tag(key, tag)))
}

/// Whether a key of an export is a tag of the user. CUR 2.0 writes `user_cost_center` for the tags
/// `Cost-Center` and `CostCenter`; other forms have `user:Cost-Center`, or the tag alone.
fn is_tag(key: &str, tag: &str) -> bool {
    fn plain(name: &str) -> impl Iterator<Item = char> {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.map(|c| c.to_ascii_lowercase())
    }
    let prefixes = ["user:", "user_"].iter();
    let mut without = prefixes.filter_map(|prefix| key.strip_prefix(prefix));
    without.any(|key| plain(key).eq(plain(tag)))
}

/// Parses RFC 3339, or a date with or without a time in UTC, as CSV exports have it.
fn parse_time(text: &str) -> Option<Timestamp> {
    let in_utc = || {
        let civil: DateTime = text.strip_suffix(" UTC").unwrap_or(text).parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    text.parse().ok().or_else(in_utc)
}

#[cfg(test)]
mod tests;
