//! The list of probes: how each observes its node, what it lost, and what waits to be sent.

use std::time::Duration;

use axum::response::Response;
use ebb_model::report::probe_problem::ProbeProblem;
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_model::report::unwatched_machine::UnwatchedMachines;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::units::HumanDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::Query;
use crate::pages::csv_table;
use crate::pages::findings::{Choice, choices, is_in_any};
use crate::pages::pager::{Link, Pager, given};
use crate::pages::value_text::{When, name};
use crate::pages::view::{Sheet, View};
use crate::problem::Problem;

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeFilter {
    mode: Option<String>,
    q: Option<String>,
    page: Option<usize>,
    format: Option<String>,
}

/// The number of probes with each condition.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProbeCounts {
    pub(crate) all: usize,
    /// Those that sample procfs.
    pub(crate) on_procfs: usize,
    /// Those that lost events or records.
    pub(crate) with_loss: usize,
    /// Those with a problem that a person should look at.
    pub(crate) with_problem: usize,
}

#[derive(Serialize)]
struct ProbeList {
    headline: String,
    counts: ProbeCounts,
    /// Running nodes without a probe.
    without_probe: usize,
    rows: Vec<ProbeRow>,
    problems: Vec<ProblemRow>,
    install: Vec<InstallRow>,
    /// Machines without a probe whose step is not among these.
    install_left_out: usize,
    pager: Pager,
    modes: Vec<Choice>,
    q: String,
    is_filtered: bool,
    left_out: usize,
}

/// One probe as a row.
#[derive(Serialize)]
struct ProbeRow {
    node: String,
    name: String,
    mode: &'static str,
    is_limited: bool,
    heard_at: When,
    events_lost: u64,
    records_dropped: u64,
    spool: String,
    memory: Option<String>,
    cpu: Option<String>,
    clock: String,
    version: Option<String>,
    problems: Vec<&'static str>,
    simulated: bool,
}

/// A problem of the shown probes, and what to do on their nodes.
#[derive(Serialize)]
struct ProblemRow {
    words: &'static str,
    remedy: &'static str,
}

/// A step that installs a probe, and its machines.
#[derive(Serialize)]
struct InstallRow {
    machines: Vec<String>,
    more: usize,
    step: String,
}

/// Steps and machines of a step that the page shows at most.
const SHOWN: usize = 20;

/// The first steps, and the number of machines of the others.
fn install(all: &UnwatchedMachines) -> (Vec<InstallRow>, usize) {
    let mut steps = all.steps();
    steps.truncate(SHOWN);
    let shown: usize = steps.iter().map(|(_, machines)| machines.len()).sum();
    let rows = steps.into_iter().map(|(step, machines)| InstallRow {
        more: machines.len().saturating_sub(SHOWN),
        machines: machines.into_iter().take(SHOWN).collect(),
        step: step.to_owned(),
    });
    (rows.collect(), all.count() - shown)
}

fn slug(mode: ProbeMode) -> &'static str {
    match mode {
        ProbeMode::Ebpf => "ebpf",
        ProbeMode::Procfs => "procfs",
    }
}

fn words(mode: ProbeMode) -> &'static str {
    match mode {
        ProbeMode::Ebpf => "eBPF",
        ProbeMode::Procfs => "procfs",
    }
}

fn is_lossy(probe: &ProbeSummary) -> bool {
    probe.events_lost > 0 || probe.records_dropped > 0
}

impl ProbeCounts {
    pub(crate) fn from_probes(probes: &[ProbeSummary]) -> Self {
        let count = |is_one: fn(&ProbeSummary) -> bool| {
            let ones = probes.iter().filter(|probe| is_one(probe));
            ones.count()
        };
        Self {
            all: probes.len(),
            on_procfs: count(|probe| probe.mode == ProbeMode::Procfs),
            with_loss: count(is_lossy),
            with_problem: count(|probe| probe.problems.iter().any(|p| p.is_urgent())),
        }
    }
}

impl From<&ProbeSummary> for ProbeRow {
    fn from(probe: &ProbeSummary) -> Self {
        Self {
            node: probe.node.to_string(),
            name: name(probe.node.as_str()),
            mode: words(probe.mode),
            is_limited: probe.mode == ProbeMode::Procfs,
            heard_at: probe.heard_at.into(),
            events_lost: probe.events_lost,
            records_dropped: probe.records_dropped,
            spool: probe.spool_bytes.to_string(),
            memory: probe.resident_bytes.map(|bytes| bytes.to_string()),
            cpu: (probe.cpu_share).map(|share| format!("{:.2} %", share.as_f64() * 100.0)),
            clock: clock(probe.clock_ahead_seconds),
            version: probe.version.map(|version| version.to_string()),
            problems: probe
                .problems
                .iter()
                .map(|problem| problem.words())
                .collect(),
            simulated: probe.origin == Origin::Simulated,
        }
    }
}

/// The difference of the clock of a node. A node up to two minutes behind counts as 0.
fn clock(ahead_seconds: i64) -> String {
    let difference = HumanDuration(Duration::from_secs(ahead_seconds.unsigned_abs()));
    match ahead_seconds {
        0 => "correct".to_owned(),
        1.. => format!("{difference} ahead"),
        _ => format!("{difference} behind"),
    }
}

/// The problems that any of these probes has, the most urgent first.
fn problems(probes: &[&ProbeSummary]) -> Vec<ProblemRow> {
    let all = ProbeProblem::ALL.into_iter();
    let have = all.filter(|problem| probes.iter().any(|p| p.problems.contains(problem)));
    have.map(|problem| ProblemRow {
        words: problem.words(),
        remedy: problem.remedy(),
    })
    .collect()
}

/// The list of probes, those with the most urgent problem first.
pub(crate) async fn probes(
    Query(filter): Query<ProbeFilter>,
    view: View,
) -> Result<Response, Problem> {
    let report = &view.report;
    let mode = mode(given(filter.mode.as_ref()))?;
    let is_wanted = |probe: &&ProbeSummary| {
        let text = given(filter.q.as_ref());
        mode.is_none_or(|mode| probe.mode == mode)
            && text.is_none_or(|text| is_in_any(text, std::iter::once(probe.node.as_str())))
    };
    let wanted: Vec<&ProbeSummary> = report.probes.iter().filter(is_wanted).collect();
    if csv_table::is_wanted(filter.format.as_ref())? {
        return csv(&wanted);
    }
    let own = |path: &str| Link::new(path).with("mode", mode.map(slug));
    let link = own("/probes").with("q", filter.q.as_deref());
    let headline = counted(wanted.len(), "probe", "probes");
    let problems = problems(&wanted);
    let (rows, pager) = Pager::cut(wanted, ("page", filter.page), &link);
    let totals = &report.totals;
    let (install, install_left_out) = install(&report.unwatched);
    let content = ProbeList {
        headline,
        counts: ProbeCounts::from_probes(&report.probes),
        without_probe: totals.running_instances.saturating_sub(totals.with_probe),
        rows: rows.into_iter().map(ProbeRow::from).collect(),
        problems,
        install,
        install_left_out,
        pager,
        modes: choices(
            [ProbeMode::Ebpf, ProbeMode::Procfs].into_iter().map(slug),
            given(filter.mode.as_ref()),
        ),
        is_filtered: link.to_string() != "/probes",
        q: filter.q.clone().unwrap_or_default(),
        left_out: report.probes_left_out,
    };
    Ok(view.render(Sheet {
        template: "probes.html",
        title: "Probes".to_owned(),
        section: "probes",
        json: Some(own("/v1/probes").to_string()),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

fn mode(text: Option<&String>) -> Result<Option<ProbeMode>, Problem> {
    let all = [ProbeMode::Ebpf, ProbeMode::Procfs];
    let Some(text) = text else { return Ok(None) };
    let found = all.into_iter().find(|mode| slug(*mode) == text);
    let refused = || Problem::Query("mode is ebpf or procfs.".to_owned());
    found.map(Some).ok_or_else(refused)
}

fn csv(probes: &[&ProbeSummary]) -> Result<Response, Problem> {
    let columns = [
        "node",
        "mode",
        "heard_at",
        "events_lost",
        "records_dropped",
        "spool_bytes",
        "resident_bytes",
        "cpu_share",
        "clock_ahead_seconds",
        "version",
        "problems",
    ];
    let rows = probes.iter().map(|probe| {
        let problems: Vec<&str> = probe.problems.iter().map(|p| p.slug()).collect();
        [
            Some(probe.node.to_string()),
            Some(slug(probe.mode).to_owned()),
            Some(probe.heard_at.to_string()),
            Some(probe.events_lost.to_string()),
            Some(probe.records_dropped.to_string()),
            Some(probe.spool_bytes.0.to_string()),
            probe.resident_bytes.map(|bytes| bytes.0.to_string()),
            probe.cpu_share.map(|share| share.as_f64().to_string()),
            Some(probe.clock_ahead_seconds.to_string()),
            probe.version.map(|version| version.to_string()),
            (!problems.is_empty()).then(|| problems.join(" ")),
        ]
    });
    csv_table::table(columns, rows)
}
