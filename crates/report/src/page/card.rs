//! One finding as text.

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::decision::Assignee;
use ebb_model::finding::{Finding, Recommendation, Resource, StepLink};
use ebb_model::finding_history::Stage;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;
use serde::Serialize;
use url::Url;

use crate::page::money::{CostWords, age};
use crate::page::wording::{LINE_CHARS, SIMULATED};
use crate::zone::Zone;

/// One finding as text.
#[derive(Debug, Serialize)]
pub struct Card {
    /// Id of the finding.
    pub finding: String,
    /// The same id, neither shortened nor on one line.
    #[serde(skip)]
    pub whole_id: String,
    /// Change of the finding; `None` if there is none.
    pub change: Option<&'static str>,
    /// Time of the first sweep with this finding; `None` if no earlier sweep is known.
    pub first_seen: Option<String>,
    /// The page of the finding; `None` if no address of the pages is known.
    pub link: Option<String>,
    /// The person who takes care of the finding.
    pub assignee: Option<String>,
    /// The same person as a user of Slack.
    #[serde(skip)]
    pub slack_user: Option<String>,
    /// Name of the resource, or its id if it has no name.
    pub title: String,
    /// Id of the resource; `None` if the title is the id.
    pub id: Option<String>,
    /// Kind of waste.
    pub kind: String,
    /// The kind as a value.
    #[serde(skip)]
    pub kind_of: FindingKind,
    /// Stable identifier of the kind.
    pub slug: &'static str,
    /// Machine type and market.
    pub machine: Option<String>,
    /// The node; `None` if it is the resource itself.
    pub node: Option<String>,
    /// Owner of the resource.
    pub owner: Option<String>,
    /// Region of the resource.
    pub region: String,
    /// Account of the resource.
    pub account: Option<String>,
    /// Tasks of the finding.
    pub steps: Vec<String>,
    /// The service that starts and stops the resource.
    pub controller: Option<String>,
    /// Label of simulated evidence; `None` for measured evidence.
    pub simulated: Option<&'static str>,
    /// Cost; `None` if no price is known.
    pub cost: Option<CostWords>,
    /// Whether the waste began before the observed time.
    pub is_longer: bool,
    /// Whether the saving is of a shorter time than a month.
    pub is_short: bool,
    /// Whether the kind is waste, which has a cost.
    pub is_waste: bool,
    /// The text in place of the cost.
    pub without_saving: &'static str,
    /// Share of the greatest saving in thousandths.
    pub bar: i64,
    /// Evidence.
    pub evidence: String,
    /// Observed time.
    pub window: String,
    /// Coverage of the observed time.
    pub coverage: Option<String>,
    /// Level of confidence.
    pub confidence: String,
    /// Reason for the level of confidence.
    pub because: String,
    /// Recommended action.
    pub action: String,
    /// Advice in one sentence.
    pub advice: String,
    /// Command or link for the first step of the fix.
    pub command: Option<String>,
    /// Whether the command is a link to a page of the console.
    pub is_link: bool,
    /// Recommended request and type.
    pub instead: Option<Advice>,
}

/// A recommendation as text.
#[derive(Debug, Serialize)]
pub struct Advice {
    /// Current request.
    pub now: String,
    /// Recommended request.
    pub ask_for: String,
    /// The cheapest suitable machine, with its price.
    pub machine: Option<String>,
    /// Current cost in an hour.
    pub per_hour_now: Option<String>,
    /// Projected cost in an hour.
    pub per_hour_then: Option<String>,
    /// Observations behind the recommendation.
    #[serde(rename = "seen")]
    pub observations: String,
    /// Assumptions.
    pub assumptions: Vec<String>,
}

impl Card {
    pub fn from_finding(finding: &Finding, report: &Report, greatest: Usd, zone: &Zone) -> Self {
        let resource = &finding.resource;
        let id = name(&resource.id);
        let name_of_it = resource.name.as_deref().map(name);
        let standing = report.history.life.get(&finding.id);
        let assignee = report.history.assigned.get(&finding.id);
        Self {
            finding: line(&finding.id),
            whole_id: finding.id.clone(),
            change: standing
                .filter(|standing| standing.stage != Stage::Ongoing)
                .map(|standing| standing.stage.word()),
            link: None,
            assignee: assignee.map(assignee_name),
            slack_user: assignee.and_then(|one| Some(one.slack_user()?.to_owned())),
            first_seen: standing.map(|standing| zone.minute(standing.first_seen)),
            id: name_of_it
                .as_ref()
                .filter(|name| **name != id)
                .map(|_| id.clone()),
            title: name_of_it.unwrap_or(id),
            kind: finding.label(),
            kind_of: finding.kind,
            slug: finding.kind.slug(),
            machine: machine(resource),
            node: resource.node.as_deref().map(name),
            owner: resource.owner.as_deref().map(name),
            region: resource.region.to_string(),
            account: resource.account.as_ref().map(ToString::to_string),
            steps: finding.steps.iter().map(step).collect(),
            controller: resource
                .controller
                .as_ref()
                .map(|controller| name(&controller.to_string())),
            simulated: (resource.origin == Origin::Simulated).then_some(SIMULATED),
            cost: CostWords::of_finding(finding, report.at, zone),
            is_longer: finding.is_longer(),
            is_short: finding.saving_covers().is_some(),
            is_waste: finding.kind.is_waste(),
            without_saving: finding.kind.without_saving(),
            bar: thousandths(finding.saving_or_zero(), greatest),
            evidence: line(&finding.evidence.to_string()),
            window: window(&finding.window, zone),
            coverage: finding.coverage.map(|share| share.to_string()),
            confidence: finding.confidence.level.to_string(),
            because: line(&finding.confidence.reason),
            action: finding.remedy.action.label().to_owned(),
            advice: line(&finding.remedy.advice),
            command: finding.remedy.command.as_deref().and_then(command),
            is_link: finding.remedy.command.as_deref().is_some_and(is_link),
            instead: finding
                .recommendation
                .as_ref()
                .map(|it| Advice::from_recommendation(it, report.at)),
        }
    }

    /// Saving in a month if the finding is fixed; `None` without a price.
    pub fn saving(&self) -> Option<Usd> {
        self.cost.as_ref().map(|cost| cost.whole.saving_a_month)
    }

    /// Waste so far; `None` without a price.
    pub fn spent(&self) -> Option<Usd> {
        self.cost.as_ref().map(|cost| cost.whole.spent)
    }

    /// Title and id together.
    pub fn resource(&self) -> String {
        match &self.id {
            Some(id) => format!("{} ({id})", self.title),
            None => self.title.clone(),
        }
    }
}

impl Advice {
    fn from_recommendation(recommendation: &Recommendation, now: Timestamp) -> Self {
        let machine = recommendation.placement.as_ref().map(|placement| {
            format!(
                "{} in {} at {}, list price {}",
                placement.instance_type,
                placement.region,
                placement.per_hour,
                age(placement.price_as_of, now)
            )
        });
        let samples = usize::try_from(recommendation.samples).unwrap_or(usize::MAX);
        Self {
            now: request(recommendation.current),
            ask_for: request(recommendation.recommended),
            machine,
            per_hour_now: recommendation.current_per_hour.map(|p| p.to_string()),
            per_hour_then: recommendation.recommended_per_hour.map(|p| p.to_string()),
            observations: counted(samples, "observed task", "observed tasks"),
            assumptions: recommendation
                .assumptions
                .iter()
                .map(|text| one_line(text))
                .collect(),
        }
    }

    /// The recommendation on one line; the evidence contains the current request.
    pub fn line(&self) -> String {
        let machine = self.machine.as_deref();
        let machine = machine.map(|m| format!("; the cheapest suitable type is {m}"));
        format!("request {}{}", self.ask_for, machine.unwrap_or_default())
    }
}

/// Maximum length of a shown name in characters; the JSON contains the full name.
const NAME_CHARS: usize = 160;

/// Maximum length of a shown command in characters; a truncated command is useless.
const COMMAND_CHARS: usize = 1_000;

fn name(text: &str) -> String {
    one_line(&clip(text, NAME_CHARS))
}

fn line(text: &str) -> String {
    one_line(&clip(text, LINE_CHARS))
}

fn command(text: &str) -> Option<String> {
    (text.chars().count() <= COMMAND_CHARS).then(|| one_line(text))
}

fn assignee_name(assignee: &Assignee) -> String {
    match assignee.slack_user() {
        Some(user) => format!("Slack user {user}"),
        None => name(&assignee.who),
    }
}

/// Whether a command is a page of the AWS console without any external text in its host.
fn is_link(command: &str) -> bool {
    let is_of_url = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#=&@%+,".contains(c);
    let url = Url::parse(command).ok().filter(|url| {
        url.scheme() == "https" && url.username().is_empty() && url.password().is_none()
    });
    let host = url.as_ref().and_then(Url::host_str);
    host.is_some_and(|host| format!(".{host}").ends_with(".console.aws.amazon.com"))
        && command.chars().all(is_of_url)
}

/// Name, id, node and job of a task.
fn step(step: &StepLink) -> String {
    let job = step
        .job
        .as_deref()
        .map(|job| format!(", Batch job {}", name(job)));
    let (called, id, node) = (name(&step.name), name(&step.id.key), name(&step.node));
    format!("{called} ({id}) on {node}{}", job.unwrap_or_default())
}

fn machine(resource: &Resource) -> Option<String> {
    let parts = [
        resource.instance_type.as_ref().map(ToString::to_string),
        resource.market.map(|market| market.to_string()),
    ];
    let known: Vec<_> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// A request as text.
pub fn request(request: SizedRequest) -> String {
    let parts = [
        request.cores.map(|cores| format!("{cores} vCPU")),
        request.memory.map(|memory| memory.to_string()),
    ];
    let known: Vec<_> = parts.into_iter().flatten().collect();
    if known.is_empty() {
        "no known amount".to_owned()
    } else {
        known.join(" and ")
    }
}

fn window(window: &Window, zone: &Zone) -> String {
    format!("{} ({})", zone.span(window), HumanDuration(window.length()))
}

/// `part` of `whole` in thousandths, from 0 to 1,000.
pub fn thousandths(part: Usd, whole: Usd) -> i64 {
    let (part, whole) = (i128::from(part.micros()), i128::from(whole.micros()));
    if whole <= 0 {
        return 0;
    }
    let share = (part * 1000 / whole).clamp(0, 1000);
    i64::try_from(share).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_the_console_is_a_link() {
        let check = |text: &str, expect: bool| assert_eq!(is_link(text), expect, "{text}");
        check(
            "https://eu-west-1.console.aws.amazon.com/ec2/home?region=eu-west-1#Instances:",
            true,
        );
        check(
            "https://console.aws.amazon.com/costmanagement/home#/ri/utilization",
            true,
        );
        check("https://evil.example/console.aws.amazon.com", false);
        check("https://evilconsole.aws.amazon.com/", false);
        check("https://evil.example?.console.aws.amazon.com/", false);
        check("https://evil.example#.console.aws.amazon.com/", false);
        check("https://me@console.aws.amazon.com/", false);
        check("https://console.aws.amazon.com@evil.example/", false);
        check("https://console.aws.amazon.com/\"onclick=x", false);
        check("http://console.aws.amazon.com/", false);
        check("aws ec2 stop-instances", false);
    }
}
