//! A finding in the fields of AWS Cost Optimization Hub, for tools that already read them.
//!
//! Source: "Recommendation", AWS Cost Optimization Hub API reference.

use std::time::Duration;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::finding::{Action, Finding};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::Serialize;

/// Fields with the names and units of the Hub.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hub {
    recommendation_id: String,
    /// `None` if the resource has no known account.
    account_id: Option<String>,
    region: String,
    resource_id: String,
    /// `None` if the id of the resource is not an ARN.
    resource_arn: Option<String>,
    current_resource_type: &'static str,
    recommended_resource_type: &'static str,
    current_resource_summary: String,
    recommended_resource_summary: String,
    /// An action of the Hub, or `Investigate` or `Reconfigure`, which the Hub lacks.
    action_type: Action,
    implementation_effort: Effort,
    restart_needed: bool,
    rollback_possible: bool,
    /// In dollars; `None` if no price is known, which differs from 0.
    estimated_monthly_savings: Option<f64>,
    /// In percent of the current cost; `None` if unknown.
    estimated_savings_percentage: Option<f64>,
    /// Current cost in a month, in dollars.
    estimated_monthly_cost: Option<f64>,
    currency_code: &'static str,
    cost_calculation_lookback_period_in_days: u64,
    /// Waste within those days, in dollars.
    estimated_savings_over_cost_calculation_lookback_period: Option<f64>,
    recommendation_lookback_period_in_days: u64,
    last_refresh_timestamp: Timestamp,
    source: &'static str,
    tags: Vec<Tag>,
}

/// The values of `implementationEffort` that Ebb uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
enum Effort {
    VeryLow,
    Low,
    Medium,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Tag {
    key: &'static str,
    value: String,
}

impl Hub {
    /// Converts a finding of a report that was created at `at`.
    pub fn from_finding(finding: &Finding, at: Timestamp) -> Self {
        let resource = &finding.resource;
        let arn = resource.id.strip_prefix("arn:").map(|_| &resource.id);
        let kind = resource_type(finding);
        let days = days(finding.window.length());
        let saving = finding.known_saving();
        let share = saved_share(finding);
        let percentage = share.map(|share| rounded(share * 100.0));
        let monthly = saving.zip(share).filter(|(_, share)| *share > 0.0);
        let action = finding.remedy.action;
        let (implementation_effort, rollback_possible) = effort(action);
        Self {
            recommendation_id: finding.id.clone(),
            account_id: resource.account.as_ref().map(ToString::to_string),
            region: resource.region.to_string(),
            resource_id: resource.id.clone(),
            resource_arn: arn.cloned(),
            current_resource_type: kind,
            recommended_resource_type: kind,
            current_resource_summary: current(finding),
            recommended_resource_summary: recommended(finding),
            action_type: action,
            implementation_effort,
            // Running tasks continue, and a stopped machine does not restart.
            restart_needed: false,
            rollback_possible,
            estimated_monthly_savings: saving.map(dollars),
            estimated_savings_percentage: percentage,
            estimated_monthly_cost: monthly.map(|(saving, share)| rounded(dollars(saving) / share)),
            currency_code: "USD",
            cost_calculation_lookback_period_in_days: days,
            estimated_savings_over_cost_calculation_lookback_period: finding
                .cost
                .as_ref()
                .map(|cost| dollars(cost.spent)),
            recommendation_lookback_period_in_days: days,
            last_refresh_timestamp: at,
            source: "Ebb",
            tags: tags(finding),
        }
    }
}

/// Least effort of an action, and whether the action can be undone.
fn effort(action: Action) -> (Effort, bool) {
    match action {
        // A stopped machine can start again, and a group can return to its old size.
        Action::Stop | Action::ScaleIn => (Effort::Low, true),
        Action::Delete => (Effort::Low, false),
        // The type of a volume changes while the volume is in use.
        Action::Upgrade => (Effort::VeryLow, true),
        Action::Rightsize => (Effort::Low, true),
        Action::Investigate | Action::Reconfigure => (Effort::Medium, true),
    }
}

/// Resource type of the Hub, from the form of the AWS id. Other resources use their own type name.
fn resource_type(finding: &Finding) -> &'static str {
    let prefixes = [
        ("i-", "Ec2Instance"),
        ("vol-", "EbsVolume"),
        ("eipalloc-", "ElasticIp"),
        ("nat-", "NatGateway"),
        ("snap-", "EbsSnapshot"),
    ];
    let id = &finding.resource.id;
    let known = prefixes.iter().find(|(prefix, _)| id.starts_with(prefix));
    match (known, &finding.recommendation, finding.remedy.action) {
        (Some((_, name)), _, _) => name,
        (None, Some(_), _) => "BatchJobDefinition",
        (None, None, Action::ScaleIn) => "Ec2AutoScalingGroup",
        (None, None, _) => finding.kind.slug(),
    }
}

fn current(finding: &Finding) -> String {
    let current_request = finding.recommendation.as_ref().map(|r| r.current);
    let machine = finding.resource.instance_type.as_ref();
    match (current_request, machine) {
        (Some(current_request), _) => request(current_request),
        (None, Some(machine)) => machine.to_string(),
        (None, None) => finding.evidence.to_string(),
    }
}

fn recommended(finding: &Finding) -> String {
    match &finding.recommendation {
        Some(recommendation) => request(recommendation.recommended),
        None => finding.remedy.advice.clone(),
    }
}

fn request(request: SizedRequest) -> String {
    let cores = request.cores.map(|cores| format!("{cores} vCPU"));
    let memory = request.memory.map(|memory| memory.to_string());
    let known: Vec<String> = cores.into_iter().chain(memory).collect();
    match known.is_empty() {
        true => "unknown".to_owned(),
        false => known.join(", "),
    }
}

/// Share of the cost that the action removes; all of it for a resource that is stopped or deleted.
fn saved_share(finding: &Finding) -> Option<f64> {
    match (&finding.recommendation, finding.remedy.action) {
        (Some(recommendation), _) => {
            let (now, then) = (
                recommendation.current_per_hour?,
                recommendation.recommended_per_hour?,
            );
            let part = |price: UsdPerHour| dollars(price.0);
            (part(now) > 0.0).then(|| (1.0 - part(then) / part(now)).clamp(0.0, 1.0))
        }
        (None, Action::Stop | Action::Delete) => Some(1.0),
        (None, _) => None,
    }
}

fn tags(finding: &Finding) -> Vec<Tag> {
    let resource = &finding.resource;
    let owner = resource.owner.clone().map(|value| ("Owner", value));
    let simulated = resource.origin == Origin::Simulated;
    let simulated = simulated.then(|| ("ebb:simulated", "true".to_owned()));
    let all = owner.into_iter().chain(simulated);
    all.map(|(key, value)| Tag { key, value }).collect()
}

/// Number of days, rounded up, at least one.
fn days(time: Duration) -> u64 {
    time.as_secs().div_ceil(86_400).max(1)
}

/// Converts to a floating point number of dollars, the unit of the Hub.
fn dollars(usd: Usd) -> f64 {
    usd.micros() as f64 / 1e6
}

/// Rounds to two decimals.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
