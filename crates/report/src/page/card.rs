//! One finding as words.

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::finding::{Finding, Recommendation, Resource, StepLink};
use ebb_model::finding_history::Stage;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Spoken;
use jiff::Timestamp;
use serde::Serialize;
use url::Url;

use crate::page::money::{CostWords, age};
use crate::page::wording::{LINE_CHARS, SIMULATED};
use crate::zone::Zone;

/// One finding as words.
#[derive(Debug, Serialize)]
pub struct Card {
    /// The finding's id.
    pub finding: String,
    /// What is new about it; `None` when nothing is.
    pub change: Option<&'static str>,
    /// When it was first found; `None` where no earlier sweep is known.
    pub first_seen: Option<String>,
    /// The name, or the id when there is none.
    pub title: String,
    /// The id, when the title is not it.
    pub id: Option<String>,
    /// What kind of waste.
    pub kind: String,
    /// The kind itself.
    #[serde(skip)]
    pub kind_of: FindingKind,
    /// The kind's name that travels.
    pub slug: &'static str,
    /// Machine type and how it is bought.
    pub machine: Option<String>,
    /// The node, when that is not the resource itself.
    pub node: Option<String>,
    /// Whom to ask.
    pub owner: Option<String>,
    /// Where.
    pub region: String,
    /// In whose account.
    pub account: Option<String>,
    /// The steps concerned.
    pub steps: Vec<String>,
    /// What starts and stops it.
    pub controller: Option<String>,
    /// Says that its evidence was made by a generator.
    pub simulated: Option<&'static str>,
    /// Its money; `None` when no price is known.
    pub cost: Option<CostWords>,
    /// Its share of the greatest saving, in thousandths.
    pub bar: i64,
    /// What shows it.
    pub evidence: String,
    /// The time observed.
    pub window: String,
    /// The share of it that was seen.
    pub coverage: Option<String>,
    /// How sure it is.
    pub confidence: String,
    /// Why.
    pub because: String,
    /// The action.
    pub action: String,
    /// One sentence.
    pub advice: String,
    /// What to start from.
    pub command: Option<String>,
    /// Whether that is a page of the console.
    pub is_link: bool,
    /// What to run on instead.
    pub instead: Option<Advice>,
}

/// A recommendation as words.
#[derive(Debug, Serialize)]
pub struct Advice {
    /// What it asks for now.
    pub now: String,
    /// What to ask for.
    pub ask_for: String,
    /// The cheapest fitting machine, with its price.
    pub machine: Option<String>,
    /// What an hour costs now.
    pub per_hour_now: Option<String>,
    /// What it would cost.
    pub per_hour_then: Option<String>,
    /// What it rests on.
    pub seen: String,
    /// What was taken for granted.
    pub assumptions: Vec<String>,
}

impl Card {
    pub fn of(finding: &Finding, report: &Report, greatest: Usd, zone: &Zone) -> Self {
        let resource = &finding.resource;
        let id = name(&resource.id);
        let name_of_it = resource.name.as_deref().map(name);
        let standing = report.history.life.get(&finding.id);
        Self {
            finding: line(&finding.id),
            change: standing
                .filter(|standing| standing.stage != Stage::Ongoing)
                .map(|standing| standing.stage.word()),
            first_seen: standing.map(|standing| zone.minute(standing.first_seen)),
            id: name_of_it
                .as_ref()
                .filter(|name| **name != id)
                .map(|_| id.clone()),
            title: name_of_it.unwrap_or(id),
            kind: finding.kind.to_string(),
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
            cost: finding
                .cost
                .as_ref()
                .map(|cost| CostWords::of(cost, report.at, zone)),
            bar: thousandths(finding.saving_or_zero(), greatest),
            evidence: line(&finding.evidence.to_string()),
            window: window(&finding.window, zone),
            coverage: finding.coverage.map(|share| share.to_string()),
            confidence: finding.confidence.level.to_string(),
            because: line(&finding.confidence.reason),
            action: finding.remedy.action.to_string(),
            advice: line(&finding.remedy.advice),
            command: finding.remedy.command.as_deref().and_then(command),
            is_link: finding.remedy.command.as_deref().is_some_and(is_link),
            instead: finding
                .recommendation
                .as_ref()
                .map(|it| Advice::of(it, report.at)),
        }
    }

    /// What fixing it saves a month; `None` without a price.
    pub fn saving(&self) -> Option<Usd> {
        self.cost.as_ref().map(|cost| cost.whole.saving_a_month)
    }

    /// What it wasted so far; `None` without a price.
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
    fn of(recommendation: &Recommendation, now: Timestamp) -> Self {
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
            seen: counted(samples, "run seen", "runs seen"),
            assumptions: recommendation
                .assumptions
                .iter()
                .map(|text| one_line(text))
                .collect(),
        }
    }

    /// All of it on one line; what is asked for now stands in the evidence.
    pub fn line(&self) -> String {
        let machine = self.machine.as_deref();
        let machine = machine.map(|m| format!("; that fits {m}"));
        format!("ask for {}{}", self.ask_for, machine.unwrap_or_default())
    }
}

/// The longest name shown; the JSON has the whole of it.
const NAME_CHARS: usize = 160;

/// The longest command shown: half a command is none.
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

/// True for a page of AWS's console, which no name from outside is a part of.
fn is_link(command: &str) -> bool {
    let is_of_url = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#=&@%+,".contains(c);
    let url = Url::parse(command).ok().filter(|url| {
        url.scheme() == "https" && url.username().is_empty() && url.password().is_none()
    });
    let host = url.as_ref().and_then(Url::host_str);
    host.is_some_and(|host| format!(".{host}").ends_with(".console.aws.amazon.com"))
        && command.chars().all(is_of_url)
}

/// Where a step is found.
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

fn request(request: SizedRequest) -> String {
    let parts = [
        request.cores.map(|cores| format!("{cores} vCPU")),
        request.memory.map(|memory| memory.to_string()),
    ];
    let known: Vec<_> = parts.into_iter().flatten().collect();
    if known.is_empty() {
        "no stated amount".to_owned()
    } else {
        known.join(" and ")
    }
}

fn window(window: &Window, zone: &Zone) -> String {
    format!("{} ({})", zone.span(window), Spoken(window.length()))
}

/// `part` of `whole` in thousandths, between none and all.
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
