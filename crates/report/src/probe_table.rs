//! The condition of probes as a table for a terminal and as CSV.

use ebb_model::report::probe_problem::ProbeProblem;
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_model::report::unwatched_machine::UnwatchedMachines;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::csv::{slug, text};
use crate::fitted_table::{self, Column, UNKNOWN};
use crate::zone::Zone;

const COLUMNS: [Column; 10] = [
    Column::name("NODE", 12),
    Column::new("MODE"),
    Column::new("LAST HEARTBEAT"),
    Column::new("LOST").right(),
    Column::new("DROPPED").right(),
    Column::new("SPOOL").right(),
    Column::new("MEMORY").right().optional(2),
    Column::new("CPU").right().optional(3),
    Column::new("CLOCK").right().optional(1),
    Column::new("VERSION").optional(4),
];

/// Nodes that one problem names at most.
const NAMED: usize = 5;

/// Steps for machines without a probe that the table shows at most.
const STEPS: usize = 20;

const NOTES: &str = "LOST: kernel events lost since the start of the probe. DROPPED: records that \
    the probe could not send. SPOOL: data that waits to be sent. MEMORY and CPU: use of the probe \
    itself. CLOCK: by how much the clock of the node is ahead.";

/// Probes of a report.
#[derive(Debug, Clone, Copy)]
pub struct ProbeList<'a> {
    /// The time of the report.
    pub at: Timestamp,
    /// The probes, in the order of the report: those with the most urgent problem first.
    pub probes: &'a [ProbeSummary],
    /// Number of probes that did not fit into the report.
    pub left_out: usize,
    /// Running machines without a probe.
    pub unwatched: &'a UnwatchedMachines,
}

/// Probes as a table. `terminal` is the number of columns of the terminal.
pub fn table(list: ProbeList<'_>, zone: &Zone, terminal: Option<usize>) -> String {
    if list.probes.is_empty() {
        return format!("No probe was observed.\n{}", unwatched(list.unwatched));
    }
    let mut out = String::new();
    if list.probes.iter().any(|p| p.origin == Origin::Simulated) {
        out.push_str("SIMULATED: at least a part of this input was generated, not measured.\n\n");
    }
    let rows: Vec<_> = list.probes.iter().map(|probe| row(probe, zone)).collect();
    let table = fitted_table::table(&COLUMNS, &rows, terminal);
    out.push_str(&table.lines);
    if list.left_out > 0 {
        let more = counted(list.left_out, "more probe", "more probes");
        out.push_str(&format!("… and {more}, with no more urgent problem\n"));
    }
    out.push_str(&problems(list.probes));
    out.push_str(&unwatched(list.unwatched));
    let time = format!("As of {}.", zone.minute(list.at));
    out.push_str(&fitted_table::notes(
        &[NOTES, &time, &table.left_out],
        terminal,
    ));
    out
}

/// Each problem with its nodes and what to do on them, the most urgent first.
fn problems(probes: &[ProbeSummary]) -> String {
    let lines = ProbeProblem::ALL.into_iter().filter_map(|problem| {
        let have = probes.iter().filter(|p| p.problems.contains(&problem));
        let nodes: Vec<String> = have.map(|probe| one_line(probe.node.as_str())).collect();
        let words = problem.words();
        (!nodes.is_empty())
            .then(|| format!("{words}: {}\n  -> {}\n", some_of(&nodes), problem.remedy()))
    });
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\n{lines}"),
    }
}

/// Each step that installs probes, with its machines; those with the most expensive machine first.
fn unwatched(all: &UnwatchedMachines) -> String {
    if all.machines.is_empty() {
        return String::new();
    }
    let count = counted(all.count(), "running machine has", "running machines have");
    let mut out = format!("\n{count} no probe:\n");
    let mut shown = 0;
    for (step, machines) in all.steps().iter().take(STEPS) {
        out.push_str(&format!("{}\n  -> {}\n", some_of(machines), one_line(step)));
        shown += machines.len();
    }
    if all.count() > shown {
        let more = counted(all.count() - shown, "more machine", "more machines");
        out.push_str(&format!(
            "… and {more}; `--format json` lists up to {}\n",
            UnwatchedMachines::MAX
        ));
    }
    out
}

/// The first names, and the number of the others.
fn some_of(names: &[String]) -> String {
    let named = names.get(..NAMED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn row(probe: &ProbeSummary, zone: &Zone) -> [String; 10] {
    let unknown = || UNKNOWN.to_owned();
    let cpu = |share: Share| format!("{:.1} %", share.as_f64() * 100.0);
    [
        one_line(probe.node.as_str()),
        mode(probe.mode).to_owned(),
        zone.short_minute(probe.heard_at),
        probe.events_lost.to_string(),
        probe.records_dropped.to_string(),
        probe.spool_bytes.to_string(),
        probe
            .resident_bytes
            .map_or_else(unknown, |bytes| bytes.to_string()),
        probe.cpu_share.map_or_else(unknown, cpu),
        format!("{} s", probe.clock_ahead_seconds),
        probe
            .version
            .map_or_else(unknown, |version| version.to_string()),
    ]
}

fn mode(mode: ProbeMode) -> &'static str {
    match mode {
        ProbeMode::Ebpf => "eBPF",
        ProbeMode::Procfs => "procfs",
    }
}

/// Probes as CSV. An empty field is unknown.
pub fn csv(probes: &[ProbeSummary]) -> String {
    let mut out = "node,mode,heard_at,events_lost,records_dropped,spool_bytes,resident_bytes,\
        cpu_share,clock_ahead_seconds,origin,version,problems\r\n"
        .to_owned();
    for probe in probes {
        let resident = probe.resident_bytes.map(|bytes| bytes.0.to_string());
        let cpu = probe.cpu_share.map(|share| share.as_f64().to_string());
        let problems: Vec<String> = probe.problems.iter().map(slug).collect();
        let cells = [
            text(probe.node.as_str()),
            slug(&probe.mode),
            probe.heard_at.to_string(),
            probe.events_lost.to_string(),
            probe.records_dropped.to_string(),
            probe.spool_bytes.0.to_string(),
            resident.unwrap_or_default(),
            cpu.unwrap_or_default(),
            probe.clock_ahead_seconds.to_string(),
            slug(&probe.origin),
            probe
                .version
                .map(|version| version.to_string())
                .unwrap_or_default(),
            problems.join(" "),
        ];
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use ebb_model::report::unwatched_machine::UnwatchedMachine;
    use ebb_telemetry::identity::{NodeId, Region};
    use ebb_telemetry::units::Bytes;

    use super::*;

    fn probe(node: &str, mode: ProbeMode) -> ProbeSummary {
        ProbeSummary {
            node: NodeId::new(node).expect("a name"),
            origin: Origin::Measured,
            mode,
            heard_at: Timestamp::from_second(1_790_000_000).expect("a time"),
            events_lost: 12_345,
            records_dropped: 0,
            spool_bytes: Bytes(3 << 20),
            resident_bytes: Some(Bytes(21 << 20)),
            cpu_share: Share::from_parts(3, 1_000),
            clock_ahead_seconds: -180,
            version: "0.2.0".parse().ok(),
            problems: vec![ProbeProblem::EventsLost, ProbeProblem::WrongClock],
        }
    }

    #[test]
    fn probes_are_a_table_with_their_losses_and_what_is_unknown() {
        let lost = probe("i-0b7d3f5a9c1e2d406", ProbeMode::Ebpf);
        let bare = ProbeSummary {
            resident_bytes: None,
            cpu_share: None,
            clock_ahead_seconds: 0,
            version: None,
            problems: Vec::new(),
            ..probe("host7", ProbeMode::Procfs)
        };
        let probes = [lost, bare];
        let none = UnwatchedMachines::default();
        let list = |left_out| ProbeList {
            at: Timestamp::from_second(1_790_000_300).expect("a time"),
            probes: &probes,
            left_out,
            unwatched: &none,
        };
        insta::assert_snapshot!(table(list(2), &Zone::utc(), None));
        insta::assert_snapshot!(table(list(0), &Zone::utc(), Some(70)));
        insta::assert_snapshot!(csv(&probes));
        let empty = ProbeList {
            probes: &[],
            ..list(0)
        };
        assert_eq!(table(empty, &Zone::utc(), None), "No probe was observed.\n");
    }

    #[test]
    fn machines_without_a_probe_are_grouped_by_the_step_that_installs_it() {
        let machine = |n: usize, install: &str| UnwatchedMachine {
            node: NodeId::new(format!("i-{n}")).expect("a name"),
            name: (n == 0).then(|| "head\nnode".to_owned()),
            region: Region::new("us-east-1").expect("a region"),
            instance_type: None,
            price_per_hour: None,
            install: install.to_owned(),
        };
        let workers = (1..=6).map(|n| machine(n, "a step for workers"));
        let all = UnwatchedMachines {
            machines: std::iter::once(machine(0, "a step for the head"))
                .chain(workers)
                .collect(),
            left_out: 3,
        };
        insta::assert_snapshot!(unwatched(&all), @r"
        10 running machines have no probe:
        head node (i-0)
          -> a step for the head
        i-1, i-2, i-3, i-4, i-5 and 1 more
          -> a step for workers
        … and 3 more machines; `--format json` lists up to 200
        ");
        assert_eq!(unwatched(&UnwatchedMachines::default()), "");
    }
}
