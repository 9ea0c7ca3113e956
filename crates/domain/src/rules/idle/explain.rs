//! The questions of the idle rule, in its order and with its own answers.

use super::{elapsed, judged_by_batch, keeper, quiet_since, standby_tag, unseen_signal};
use crate::finding::{FindingKind, Window};
use crate::fleet::{Instance, InstanceState};
use crate::judge::Facts;
use crate::rules::{Check, Questions, Speaks, rest};
use crate::units::{Share, Spoken};

/// Asks them of one machine.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    let mut questions = Questions::of(FindingKind::IdleNode);
    let runs = instance.state == InstanceState::Running;
    let state = format!("{:?}", instance.state).to_lowercase();
    questions.ask(
        "does it run?",
        (state, "running"),
        Speaks::for_waste_if(runs),
    );
    let is_batchs = judged_by_batch(facts).contains(&instance.id);
    let job = if is_batchs {
        "yes: the Batch rule judges it"
    } else {
        "no"
    };
    questions.ask(
        "does a Batch job run on it, or is its ECS agent lost?",
        (job, ""),
        Speaks::for_waste_if(!is_batchs),
    );
    let tag = standby_tag(facts, instance);
    let wanted: Vec<&str> = facts
        .policy
        .idle
        .standby_tags
        .iter()
        .map(String::as_str)
        .collect();
    questions.ask(
        "is it meant to stand by?",
        (tag.as_deref().unwrap_or("no such tag"), wanted.join(", ")),
        if tag.is_some() {
            Speaks::Unknown
        } else {
            Speaks::ForWaste
        },
    );
    match facts.state.nodes.get(&instance.id) {
        Some(node) if node.latest.is_some() => by_probe(facts, instance, node, &mut questions),
        _ => by_metrics(facts, instance, &mut questions),
    }
    questions.asked
}

fn by_probe(
    facts: &Facts<'_>,
    instance: &Instance,
    node: &crate::state::NodeState,
    questions: &mut Questions,
) {
    let policy = &facts.policy.idle;
    let Some(latest) = &node.latest else { return };
    let silent = elapsed(latest.end, facts.now).unwrap_or_default();
    questions.ask(
        "is its probe heard of?",
        (
            format!("{} ago", Spoken(silent)),
            format!("at most {} ago", Spoken(policy.after())),
        ),
        if silent > policy.after() {
            Speaks::Unknown
        } else {
            Speaks::ForWaste
        },
    );
    let Some(from) = quiet_since(instance, node) else {
        return;
    };
    let window = Window {
        from,
        to: latest.end,
    };
    let keeper = keeper::of(facts, instance, node);
    let keeps = keeper
        .as_ref()
        .map_or_else(|| "nothing that shows".to_owned(), ToString::to_string);
    let ends = keeper::last_ends(facts);
    let (patience, meant) = match keeper::patience(facts, instance, keeper.as_ref(), &ends) {
        keeper::Patience::For(time) => (time, None),
        keeper::Patience::Meant(why) => (policy.after(), Some(why)),
    };
    questions.ask(
        "what keeps it from being stopped?",
        (meant.as_deref().unwrap_or(&keeps), ""),
        if meant.is_some() {
            Speaks::Unknown
        } else {
            Speaks::ForWaste
        },
    );
    let usual = rest::usual(facts, instance, node);
    let shown = usual.map_or_else(|| "not known to".to_owned(), |usual| usual.to_string());
    questions.ask(
        "does it rest as it is used to?",
        (shown, ""),
        Speaks::for_waste_if(usual.is_none()),
    );
    let long = window.length() >= patience;
    let was_active = node.active_until.is_some();
    questions.ask(
        "for how long did no workload do anything?",
        (
            Spoken(window.length()),
            format!("at least {}", Spoken(patience)),
        ),
        match (long, was_active) {
            (true, _) => Speaks::ForWaste,
            (false, true) => Speaks::Against,
            (false, false) => Speaks::Unknown,
        },
    );
    let unseen = unseen_signal(facts, instance, latest);
    questions.ask(
        "does its probe see all that it could do?",
        (unseen.unwrap_or("yes"), ""),
        if unseen.is_some() {
            Speaks::Unknown
        } else {
            Speaks::ForWaste
        },
    );
    let tick = facts.policy.activity.tick();
    let coverage = node
        .seen
        .coverage(window.from, window.to, tick)
        .unwrap_or(Share::NONE);
    let enough = coverage >= policy.min_coverage();
    questions.ask(
        "how much of that time was seen?",
        (coverage, format!("at least {}", policy.min_coverage())),
        if enough {
            Speaks::ForWaste
        } else {
            Speaks::Unknown
        },
    );
}

fn by_metrics(facts: &Facts<'_>, instance: &Instance, questions: &mut Questions) {
    let points = facts
        .metrics
        .get(&instance.id)
        .map_or(0, |series| series.points().len());
    questions.ask(
        "without a probe: are there metrics of it?",
        (format!("{points} points"), "at least 1"),
        if points > 0 {
            Speaks::ForWaste
        } else {
            Speaks::Unknown
        },
    );
    let after = Spoken(facts.policy.metrics.idle_after());
    let verdict = super::metrics::judge(facts, instance);
    let speaks = match &verdict {
        Some(super::Verdict::Waste(_)) => Speaks::ForWaste,
        Some(super::Verdict::NotJudged(_)) => Speaks::Unknown,
        None => Speaks::Against,
    };
    let value = match verdict {
        Some(super::Verdict::Waste(finding)) => finding.evidence.to_string(),
        Some(super::Verdict::NotJudged(why)) => why.reason,
        None => "not quiet for long enough".to_owned(),
    };
    questions.ask(
        "for how long were its metrics quiet?",
        (
            value,
            format!(
                "at least {after} below {}",
                facts.policy.metrics.cpu_floor()
            ),
        ),
        speaks,
    );
}
