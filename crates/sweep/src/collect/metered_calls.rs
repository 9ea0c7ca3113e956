//! Calls that AWS charges for: metrics and the bill. Answers are stored between sweeps, and a daily
//! budget limits the calls. A gap reports each call that was left out.

pub mod budget;
pub mod history;
pub mod insights;
pub mod own_cost;
pub mod plans;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_cloud::ports::metrics::{METRICS_PER_NODE, MetricsSource, NodeMetrics, PRICE_PER_METRIC};
use ebb_cloud::ports::{BillSource, BillVersion, CloudResult};
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::metric_series::MetricSeries;
use ebb_model::policy::metrics::MetricsPolicy;
use ebb_model::report::own_cost::{OWN_TAG, OwnCost};
use ebb_model::visibility_gap::{BY_RESOURCE, BY_SERVICE, Gap, Refused};
use ebb_telemetry::identity::{NodeId, Region};
use ebb_telemetry::money::Usd;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::collect::account::{Account, REGIONS_AT_ONCE, is_older};
use crate::collect::metered_calls::budget::{
    METRICS_PER_IDLE_TIME, Wanted, affordable, five_minute_metrics_from, nodes_without_probe,
    requests_for, within,
};
use crate::collect::metered_calls::insights::Insights;
use crate::collect::metered_calls::own_cost::OwnBill;
use crate::collect::metered_calls::plans::Plans;

/// Age after which the bill is requested again: Cost Explorer refreshes its data at least once a
/// day.
const BILL_AGE: Duration = Duration::from_secs(12 * 3600);

/// Age after which a failed request of the bill is repeated. Each one costs money, so it is not
/// repeated in each sweep.
const FAILURE_AGE: Duration = Duration::from_secs(2 * 3600);

/// Age up to which a bill is kept if newer requests fail. A failure that lasts longer may be a setting
/// of the account.
const KEPT_AGE: Duration = Duration::from_secs(48 * 3600);

/// Days whose requests are counted, as many as the bill has.
const REQUEST_DAYS: usize = 14;

/// How to enable cost data by resource.
const OPT_IN: &str = "list prices are used; for the cost of each resource, enable Resource-level data at daily granularity under Billing and Cost Management > Cost Management preferences, and allow ce:GetCostAndUsageWithResources";

/// Answers of metered calls, stored between sweeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Paid {
    /// The UTC day that `spent` counts.
    day: String,
    spent: Usd,
    /// The same for the last days, with today.
    spent_by_day: BTreeMap<String, Usd>,
    /// When the metrics of each node were requested last.
    requested_at: BTreeMap<NodeId, Timestamp>,
    metrics: BTreeMap<NodeId, MetricSeries>,
    /// Nodes whose hourly metrics of the days before were requested. These metrics are stored and
    /// not requested again.
    with_history: BTreeSet<NodeId>,
    /// Partial refusals of metrics, and when they happened: they are not requested again at once.
    refused: Vec<(Timestamp, Gap)>,
    bill: Option<Bill>,
    own_bill: Option<OwnBill>,
    plans: Option<Plans>,
    insights: Option<Insights>,
}

/// The reason for a gap when today's budget is spent.
fn spent() -> Refused {
    Refused::because("the budget for paid calls of today is used up")
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Bill {
    at: Timestamp,
    by_node: BTreeMap<NodeId, ResourceCost>,
    days: Vec<BilledDay>,
    /// Costs that were refused, of all accounts or of one.
    refused: Vec<Gap>,
    /// Parts of a free bill that were not read.
    unread: Vec<Gap>,
    /// The version of a free bill; `None` if it is read each time.
    version: Option<String>,
    /// Charged requests that this bill took.
    requests: u64,
    /// When the last request failed, and why, if this bill is kept instead.
    failed: Option<(Timestamp, Vec<Gap>)>,
}

impl Bill {
    /// Requests a bill. Parts without an answer are empty and refused.
    async fn request(
        source: &dyn BillSource,
        tags: &[String],
        version: BillVersion,
        now: Timestamp,
    ) -> Self {
        let before = source.requests();
        let by_node = source.by_resource(now).await;
        let days = source.by_day(now, tags).await;
        let mut refused = source.take_gaps();
        Self {
            at: now,
            by_node: answered(by_node, BY_RESOURCE, &mut refused),
            days: answered(days, BY_SERVICE, &mut refused),
            refused,
            unread: source.gaps(now),
            version: match version {
                BillVersion::Is(version) => Some(version),
                BillVersion::Unknown | BillVersion::Unfinished => None,
            },
            requests: source.requests().saturating_sub(before),
            failed: None,
        }
    }

    /// Whether a free bill is as it was read. Its days are those before a UTC day.
    fn is_unchanged(&self, version: &BillVersion, now: Timestamp) -> bool {
        let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        match version {
            BillVersion::Unknown => false,
            BillVersion::Is(version) => {
                self.version.as_ref() == Some(version) && day(self.at) == day(now)
            }
            BillVersion::Unfinished => self.version.is_some(),
        }
    }

    /// Whether a charged bill was read, or could not be read again, a short time ago.
    fn is_recent(&self, now: Timestamp) -> bool {
        match &self.failed {
            Some((at, _)) => !is_older(*at, now, FAILURE_AGE),
            None => !is_older(self.at, now, BILL_AGE),
        }
    }

    /// Whether the costs that a newer request refused are costs of this bill, and the refusal may be
    /// short. A missing permission is not.
    fn outlasts(&self, refused: &[Gap], now: Timestamp) -> bool {
        let mut failed = refused.iter().filter(|gap| gap.denied.is_none());
        failed.any(|gap| !self.lacks(&gap.scope)) && !is_older(self.at, now, KEPT_AGE)
    }

    fn lacks(&self, scope: &str) -> bool {
        self.refused.iter().any(|gap| gap.scope == scope)
    }

    /// Keeps this bill although a newer request failed.
    fn keep(&mut self, mut refused: Vec<Gap>, now: Timestamp) {
        refused.retain(|gap| !self.lacks(&gap.scope));
        for gap in &mut refused {
            gap.scope.push_str(", newest data");
        }
        self.failed = Some((now, refused));
    }

    /// The missing parts of the bill. The same refusal is not requested again at once, because each
    /// request costs money.
    fn gaps(&self) -> impl Iterator<Item = Gap> {
        let refused = self.refused.iter().cloned().map(|mut gap| {
            if gap.scope == BY_RESOURCE {
                gap.reason = format!("{}; {OPT_IN}", gap.reason);
            }
            gap
        });
        let failed = self.failed.iter().flat_map(|(_, gaps)| gaps);
        refused.chain(self.unread.iter().chain(failed).cloned())
    }
}

/// The answer. Without one, it is empty, and the reason is one of the gaps.
fn answered<T: Default>(answer: CloudResult<T>, scope: &str, refused: &mut Vec<Gap>) -> T {
    answer.unwrap_or_else(|error| {
        refused.push(Refused::from(error).gap(scope));
        T::default()
    })
}

impl Paid {
    /// Requests what is wanted and not fresh, within the budget. Returns a gap for everything that
    /// it could not request.
    pub async fn refresh(&mut self, account: &Account<'_>, wanted: &Wanted<'_>) -> Vec<Gap> {
        let today = wanted.now.strftime("%Y-%m-%d").to_string();
        if self.day != today {
            self.day = today;
            self.spent = Usd::ZERO;
        }
        let mut gaps = Vec::new();
        self.refresh_bill(account, wanted, &mut gaps).await;
        gaps.extend(self.refresh_plans(account, wanted).await);
        self.refresh_metrics(account, wanted, &mut gaps).await;
        gaps.extend(self.refresh_insights(account, wanted).await);
        match account.bill.is_some() || account.metrics.is_some() {
            true => self.count_requests(),
            false => self.spent_by_day.clear(),
        }
        gaps
    }

    /// Metrics of the nodes that were requested last.
    pub fn series(&self) -> &BTreeMap<NodeId, MetricSeries> {
        &self.metrics
    }

    /// Costs by resource; empty if resource-level data is not enabled.
    pub fn costs(&self) -> &BTreeMap<NodeId, ResourceCost> {
        static NOTHING: BTreeMap<NodeId, ResourceCost> = BTreeMap::new();
        self.bill.as_ref().map_or(&NOTHING, |bill| &bill.by_node)
    }

    /// Costs by whole day; empty without a bill.
    pub fn days(&self) -> &[BilledDay] {
        self.bill.as_ref().map_or(&[], |bill| &bill.days)
    }

    /// The cost of Ebb itself.
    pub fn own_cost(&self) -> OwnCost {
        OwnBill::cost(self.own_bill.as_ref(), self.spent_by_day.clone())
    }

    /// Counts the price of today's requests.
    fn count_requests(&mut self) {
        self.spent_by_day.insert(self.day.clone(), self.spent);
        while self.spent_by_day.len() > REQUEST_DAYS {
            self.spent_by_day.pop_first();
        }
    }

    fn left(&self, policy: &MetricsPolicy) -> Usd {
        Usd::from_micros(policy.paid_calls_usd_micros_a_day) - self.spent
    }

    async fn refresh_bill(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted<'_>,
        gaps: &mut Vec<Gap>,
    ) {
        let Some(source) = account.bill else {
            // An earlier bill does not count as current.
            self.bill = None;
            self.own_bill = None;
            return;
        };
        let paid = source.is_charged_for();
        let version = source.version().await;
        let fresh = |bill: &Bill| match paid {
            true => bill.is_recent(wanted.now),
            false => bill.is_unchanged(&version, wanted.now),
        };
        if let Some(kept) = self.bill.as_ref().filter(|bill| fresh(bill)) {
            return gaps.extend(kept.gaps());
        }
        let tags: Vec<String> = wanted.policy.cost_tags.iter().cloned().collect();
        // By resource, by service and by each tag, with at least one page each. The number of the
        // last time is used if it is known and larger.
        let likely = self.bill.as_ref().map_or(0, |bill| bill.requests);
        let requests = likely.max(2 + tags.len() as u64);
        let affords = |requests| !paid || self.left(wanted.policy) >= requests_for(requests);
        if !affords(requests) {
            gaps.extend(self.bill.iter().flat_map(Bill::gaps));
            return gaps.push(spent().gap(BY_RESOURCE));
        }
        // The cost of Ebb itself is the first to go without.
        let own = (paid, affords(requests + 1));
        let all_tags = OwnBill::requested_tags(self.own_bill.as_ref(), &tags, own, wanted.now);
        let mut bill = Bill::request(source, &all_tags, version, wanted.now).await;
        self.spent = self.spent + requests_for(bill.requests);
        let kept = self.bill.as_mut();
        let kept = kept.filter(|kept| paid && kept.outlasts(&bill.refused, wanted.now));
        if let Some(kept) = kept {
            kept.keep(bill.refused, wanted.now);
            return gaps.extend(kept.gaps());
        }
        let has_days = !bill.lacks(BY_SERVICE);
        if has_days && all_tags.iter().any(|tag| tag == OWN_TAG) {
            self.own_bill = Some(OwnBill::take(&mut bill.days, &tags, wanted.now));
        }
        gaps.extend(bill.gaps());
        self.bill = Some(bill);
    }

    async fn refresh_metrics(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted<'_>,
        gaps: &mut Vec<Gap>,
    ) {
        let without_probe = nodes_without_probe(wanted);
        let wanted_nodes: BTreeSet<&NodeId> = without_probe.iter().map(|(_, node)| node).collect();
        self.requested_at
            .retain(|node, _| wanted_nodes.contains(node));
        self.metrics.retain(|node, _| wanted_nodes.contains(node));
        let metrics = &self.metrics;
        self.with_history.retain(|node| metrics.contains_key(node));
        let Some(source) = account.metrics else {
            return;
        };
        let every = wanted.policy.idle_after() / METRICS_PER_IDLE_TIME;
        let mut due: Vec<(Region, NodeId)> = without_probe
            .into_iter()
            .filter(|(_, node)| {
                let requested_at = self.requested_at.get(node);
                requested_at.is_none_or(|at| is_older(*at, wanted.now, every))
            })
            .collect();
        // The node that has waited longest comes first.
        due.sort_by_key(|(region, node)| {
            let requested_at = self.requested_at.get(node).copied();
            (requested_at, region.clone(), node.clone())
        });
        let number = due.len();
        let before = source.metrics_requested();
        due.truncate(affordable(self.left(wanted.policy), METRICS_PER_NODE));
        let supplementary = self.list_supplementary(source, wanted, &due, gaps).await;
        self.pay(source, before);
        let by_region = within(self.left(wanted.policy), due, supplementary);
        let affordable_nodes: usize = by_region.values().map(BTreeMap::len).sum();
        if number > affordable_nodes {
            gaps.push(spent().gap(format!("metrics of {} nodes", number - affordable_nodes)));
        }
        let before = source.metrics_requested();
        let nodes = self.ask(source, wanted, by_region, gaps).await;
        self.pay(source, before);
        let before = source.metrics_requested();
        self.ask_history(source, wanted, nodes, gaps).await;
        self.pay(source, before);
        let refusals = source.take_gaps();
        self.refused.retain(|(at, old)| {
            let again = refusals.iter().any(|new| new.scope == old.scope);
            !again && !is_older(*at, wanted.now, every)
        });
        self.refused
            .extend(refusals.into_iter().map(|gap| (wanted.now, gap)));
        gaps.extend(self.refused.iter().map(|(_, gap)| gap.clone()));
    }

    fn pay(&mut self, source: &dyn MetricsSource, before: u64) {
        let count = source.metrics_requested().saturating_sub(before);
        let price = i64::try_from(count)
            .unwrap_or(i64::MAX)
            .saturating_mul(PRICE_PER_METRIC.micros());
        self.spent = self.spent + Usd::from_micros(price);
    }

    /// Metrics that only some of these nodes have: CPU credits and those that an agent sends.
    /// Without them a node is evaluated by the metrics that all nodes have.
    async fn list_supplementary(
        &self,
        source: &dyn MetricsSource,
        wanted: &Wanted<'_>,
        due: &[(Region, NodeId)],
        gaps: &mut Vec<Gap>,
    ) -> NodeMetrics {
        let mut by_region: BTreeMap<Region, Vec<NodeId>> = BTreeMap::new();
        for (region, node) in due {
            let nodes = by_region.entry(region.clone()).or_default();
            nodes.push(node.clone());
        }
        let lists = affordable(self.left(wanted.policy), source.least_pages());
        if lists < by_region.len() {
            return NodeMetrics::new();
        }
        let calls = by_region.into_iter().map(|(region, nodes)| async move {
            let answer = source.list_supplementary(&region, &nodes).await;
            (region, answer)
        });
        let mut answers = stream::iter(calls).buffered(REGIONS_AT_ONCE);
        let mut all = NodeMetrics::new();
        while let Some((region, answer)) = answers.next().await {
            match answer {
                Ok(supplementary) => all.extend(supplementary),
                Err(error) => {
                    let scope = format!("{region}: metrics of credits and of agents");
                    gaps.push(Refused::from(error).gap(scope));
                }
            }
        }
        all
    }

    /// Requests several regions at the same time. Returns the nodes that have data, with the
    /// metrics that only some nodes have.
    async fn ask(
        &mut self,
        source: &dyn MetricsSource,
        wanted: &Wanted<'_>,
        by_region: BTreeMap<Region, NodeMetrics>,
        gaps: &mut Vec<Gap>,
    ) -> BTreeMap<Region, NodeMetrics> {
        let window = (five_minute_metrics_from(wanted), wanted.now);
        let mut answers = utilization(source, by_region, window, gaps).await;
        for answer in &mut answers {
            for node in answer.nodes.keys() {
                self.requested_at.insert(node.clone(), wanted.now);
                // An earlier answer does not count as current.
                let before = self.metrics.remove(node);
                let series = answer
                    .series
                    .remove(node)
                    .filter(|series| !series.is_empty());
                if let Some(series) = series {
                    let series = self.with_kept_history(node, before, series, wanted);
                    self.metrics.insert(node.clone(), series);
                } else {
                    self.with_history.remove(node);
                }
            }
        }
        let with_data = answers.into_iter().map(|mut answer| {
            answer
                .nodes
                .retain(|node, _| self.metrics.contains_key(node));
            (answer.region, answer.nodes)
        });
        with_data.collect()
    }
}

/// The answer of one region about some nodes.
struct NodeAnswer {
    region: Region,
    nodes: NodeMetrics,
    series: BTreeMap<NodeId, MetricSeries>,
}

/// Requests several regions at the same time. A region that refuses becomes a gap.
async fn utilization(
    source: &dyn MetricsSource,
    by_region: BTreeMap<Region, NodeMetrics>,
    (from, to): (Timestamp, Timestamp),
    gaps: &mut Vec<Gap>,
) -> Vec<NodeAnswer> {
    let calls = by_region.into_iter().map(|(region, nodes)| async move {
        let answer = source.utilization(&region, &nodes, from, to).await;
        (region, nodes, answer)
    });
    let mut answers = stream::iter(calls).buffered(REGIONS_AT_ONCE);
    let mut all = Vec::new();
    while let Some((region, nodes, answer)) = answers.next().await {
        match answer {
            Ok(series) => all.push(NodeAnswer {
                region,
                nodes,
                series,
            }),
            Err(error) => gaps.push(Refused::from(error).gap(format!("{region}: metrics"))),
        }
    }
    all
}
