//! Advice on pipelines, compute environments and nodes for a terminal.

use std::fmt::Write;
use std::time::Duration;

use ebb_model::advice::group::{Fleet, GroupAdvice, Member};
use ebb_model::advice::node::{NodeAdvice, Used};
use ebb_model::inventory::instance::Market;
use ebb_model::inventory::spot_market::SpotScore;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::page::money::age;
use crate::step_table::{paragraph, request};
use crate::zone::Zone;

/// Current and projected cost of a pipeline or an environment, and the packing of its steps.
pub fn group(
    advice: &GroupAdvice,
    (terminal, now): (Option<usize>, Timestamp),
    zone: &Zone,
) -> String {
    let mut out = simulated(advice.origin);
    let runs = counted(advice.runs as usize, "task", "tasks");
    let _ = writeln!(
        out,
        "{} in {}{}: {runs} of {} from {}",
        one_line(&advice.name),
        advice.region,
        whose(advice),
        counted(advice.steps.len(), "step", "steps"),
        zone.span(&Window {
            from: advice.from,
            to: advice.to,
        }),
    );
    let may_start = match &advice.allocation {
        Some(how) => format!("{} ({how})", advice.allowed.join(", ")),
        None => advice.allowed.join(", "),
    };
    let steps: Vec<String> = advice.steps.iter().map(member).collect();
    let lines = [
        ("steps", steps.join("; ")),
        ("types", may_start),
        ("today", present(advice)),
        ("same type", resized(advice)),
        (offers_head(advice), each(&advice.offers)),
        ("on spot", on_spot(&advice.spot, advice.spot_score.as_ref())),
        ("together", together(advice)),
        ("saves", saving(advice.saving_a_month)),
        (
            "prices",
            format!("list prices {}", age(advice.list_as_of, now)),
        ),
        ("accuracy", accuracy(advice)),
        ("no advice", advice.refused.clone().unwrap_or_default()),
        ("assumes", advice.assumed.join("; ")),
    ];
    paragraphs(&mut out, &lines, terminal);
    out
}

/// A group on spot stays on spot, so the on-demand offers are only a comparison.
fn offers_head(advice: &GroupAdvice) -> &'static str {
    match advice.is_on_spot() {
        true => "on demand",
        false => "suitable",
    }
}

/// The account in words; empty if unknown.
fn whose(advice: &GroupAdvice) -> String {
    let account = advice.account.as_ref();
    account.map_or_else(String::new, |account| format!(", account {account}"))
}

/// Use of a node, and the cheapest suitable types.
pub fn node(advice: &NodeAdvice, (terminal, now): (Option<usize>, Timestamp)) -> String {
    let mut out = simulated(advice.origin);
    let name = advice
        .name
        .as_deref()
        .map_or_else(String::new, |name| format!(" ({name})"));
    let hours = counted(advice.hours_seen as usize, "hour", "hours");
    let _ = writeln!(
        out,
        "{}{} in {}: {} {}, observed in {hours}",
        one_line(&advice.node),
        one_line(&name),
        advice.region,
        advice.instance_type,
        advice.market,
    );
    let price = advice
        .per_hour
        .map_or_else(String::new, |paid| paid.to_string());
    let list = advice
        .list_per_hour
        .filter(|list| Some(*list) != advice.per_hour);
    let list_text = list.map_or_else(String::new, |list| format!(", list price {list}"));
    let offers = advice.offers.iter();
    let offers: Vec<String> = offers
        .map(|offer| format!("{} {}", offer.instance_type, offer.per_hour))
        .collect();
    let lines = [
        ("costs", price + &list_text),
        ("used", used(advice.used)),
        ("needs", with_headroom(advice.needs)),
        ("suitable", offers.join("; ")),
        (
            "prices",
            format!("list prices {}", age(advice.list_as_of, now)),
        ),
        ("saves", saving(advice.saving_a_month)),
        ("no advice", advice.refused.clone().unwrap_or_default()),
        ("assumes", advice.assumed.join("; ")),
    ];
    paragraphs(&mut out, &lines, terminal);
    out
}

fn simulated(origin: Origin) -> String {
    match origin {
        Origin::Simulated => {
            "SIMULATED: at least a part of this input was generated, not measured.\n\n".to_owned()
        }
        Origin::Measured => String::new(),
    }
}

fn paragraphs(out: &mut String, lines: &[(&str, String)], terminal: Option<usize>) {
    for (head, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
        paragraph(out, head, text, terminal);
    }
}

fn member(member: &Member) -> String {
    let asks = match member.should_ask == member.asks {
        true => format!("requests {}", request(member.asks)),
        false => format!(
            "requests {}, recommended {}",
            request(member.asks),
            request(member.should_ask)
        ),
    };
    let more = match member.samples_needed {
        0 => String::new(),
        more => format!(", {more} more tasks needed to estimate its risk"),
    };
    format!("{} x {}: {asks}{more}", member.runs, member.step)
}

fn fleet(fleet: &Fleet, is_bound: bool) -> String {
    let market = match fleet.market {
        Market::OnDemand => String::new(),
        other => format!(" {other}"),
    };
    format!(
        "{} x {}{market}, {} of machine time, {}",
        fleet.machines,
        fleet.instance_type,
        HumanDuration(Duration::from_secs(fleet.machine_time.as_secs())),
        match is_bound {
            true => format!("at most {} (on-demand price)", fleet.usd),
            false => fleet.usd.to_string(),
        }
    )
}

/// The present machines.
fn present(advice: &GroupAdvice) -> String {
    let now = advice.now.as_ref();
    now.map_or_else(String::new, |now| fleet(now, advice.is_bound()))
}

/// The present type with the recommended requests.
fn resized(advice: &GroupAdvice) -> String {
    let resized = advice.resized.as_ref();
    resized.map_or_else(String::new, |resized| {
        let fleet = fleet(resized, advice.is_bound());
        format!("{fleet}, with the recommended requests")
    })
}

fn each(fleets: &[Fleet]) -> String {
    let each = fleets.iter().map(|one| fleet(one, false));
    each.collect::<Vec<_>>().join("; ")
}

/// The types, and the spot placement score of AWS.
fn on_spot(fleets: &[Fleet], score: Option<&SpotScore>) -> String {
    let score = score.map(|score| format!("; {score}"));
    each(fleets) + &score.unwrap_or_default()
}

/// Tasks on the fullest machine of the best offer.
fn together(advice: &GroupAdvice) -> String {
    let Some(best) = advice.offered().first() else {
        return String::new();
    };
    let runs = best.together.iter();
    let runs: Vec<String> = runs
        .map(|one| format!("{} x {}", one.runs, one.step))
        .collect();
    format!("{} on one {}", runs.join(" and "), best.instance_type)
}

fn saving(saving: Option<ebb_telemetry::money::Usd>) -> String {
    saving.map_or_else(String::new, |saving| format!("{saving} a month"))
}

fn accuracy(advice: &GroupAdvice) -> String {
    let Some(ppm) = advice.seen_by_replayed_ppm else {
        return String::new();
    };
    let percent = f64::from(ppm) / 10_000.0;
    let level = advice.confidence;
    format!(
        "{level} confidence; the observed cost is {percent:.0} % of the cost in a replay of the \
         same tasks"
    )
}

fn with_headroom(needs: Used) -> String {
    match used(needs) {
        unknown if unknown.is_empty() => unknown,
        needs => format!("with headroom {needs}"),
    }
}

fn used(used: Used) -> String {
    let cores = used.cores.map(|cores| format!("{cores} vCPU"));
    let memory = used.memory.map(|memory| memory.to_string());
    let known: Vec<String> = cores.into_iter().chain(memory).collect();
    known.join(", ")
}
