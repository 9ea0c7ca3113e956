//! A finding in the fields of AWS Cost Optimization Hub, for people whose tools read
//! those already.
//!
//! Source: "Recommendation", AWS Cost Optimization Hub API reference.

use std::time::Duration;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::finding::{Action, Finding};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::Serialize;

/// The Hub's fields, under its names and in its units.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hub {
    recommendation_id: String,
    /// `None` where the resource does not say.
    account_id: Option<String>,
    region: String,
    resource_id: String,
    /// `None` where the resource is not named by one.
    resource_arn: Option<String>,
    current_resource_type: &'static str,
    recommended_resource_type: &'static str,
    current_resource_summary: String,
    recommended_resource_summary: String,
    /// The Hub's, and `Investigate` and `Reconfigure`, which it lacks.
    action_type: Action,
    implementation_effort: Effort,
    restart_needed: bool,
    rollback_possible: bool,
    /// In dollars; `None` where no price is known, which is not nothing.
    estimated_monthly_savings: Option<f64>,
    /// In hundredths of what it costs now; `None` where that is not known.
    estimated_savings_percentage: Option<f64>,
    /// What it costs a month now.
    estimated_monthly_cost: Option<f64>,
    currency_code: &'static str,
    cost_calculation_lookback_period_in_days: u64,
    /// What was wasted within those days.
    estimated_savings_over_cost_calculation_lookback_period: Option<f64>,
    recommendation_lookback_period_in_days: u64,
    last_refresh_timestamp: Timestamp,
    source: &'static str,
    tags: Vec<Tag>,
}

/// `implementationEffort`, as much of it as is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Effort {
    VeryLow,
    Low,
    Medium,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Tag {
    key: &'static str,
    value: String,
}

impl Hub {
    /// Of a finding in a report that was made at `at`.
    pub fn of(finding: &Finding, at: Timestamp) -> Self {
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
            // What runs goes on; a machine that is to be stopped is not to run again.
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

/// Of the least effort that the action takes, and whether it can be undone.
fn effort(action: Action) -> (Effort, bool) {
    match action {
        // A machine that is stopped can be started; a group takes its old size.
        Action::Stop | Action::ScaleIn => (Effort::Low, true),
        Action::Delete => (Effort::Low, false),
        // A volume changes its type while it is used.
        Action::Upgrade => (Effort::VeryLow, true),
        Action::Rightsize => (Effort::Low, true),
        Action::Investigate | Action::Reconfigure => (Effort::Medium, true),
    }
}

/// The Hub's resource type, by the id that AWS gives; what it has no type for is named
/// by what it is.
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
    let asked = finding.recommendation.as_ref().map(|r| r.current);
    let machine = finding.resource.instance_type.as_ref();
    match (asked, machine) {
        (Some(asked), _) => request(asked),
        (None, Some(machine)) => machine.to_string(),
        (None, None) => finding.evidence.to_string(),
    }
}

fn recommended(finding: &Finding) -> String {
    match &finding.recommendation {
        Some(told) => request(told.recommended),
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

/// What part of its cost goes away: all of it where it is to go.
fn saved_share(finding: &Finding) -> Option<f64> {
    match (&finding.recommendation, finding.remedy.action) {
        (Some(told), _) => {
            let (now, then) = (told.current_per_hour?, told.recommended_per_hour?);
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

/// Days begun, at least one.
fn days(time: Duration) -> u64 {
    time.as_secs().div_ceil(86_400).max(1)
}

/// The Hub counts in dollars; this is the edge where fixed point ends.
fn dollars(usd: Usd) -> f64 {
    usd.micros() as f64 / 1e6
}

/// To the cent, or the hundredth of a per cent.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
