//! What stands beside the findings, a line each: where the bill went, and what the
//! cloud's own advisers say of the same machines.

use ebb_domain::ledger::LedgerDay;
use ebb_domain::report::{Report, SecondOpinion};
use ebb_domain::units::Usd;
use serde::Serialize;

use super::super::text::{counted, one_line};

/// Opinions that are shown; the report as JSON has all.
const MAX_OPINIONS: usize = 20;

/// A small section.
#[derive(Debug, Serialize)]
pub(crate) struct Beside {
    /// Its title.
    pub(crate) title: &'static str,
    /// Its lines.
    pub(crate) lines: Vec<String>,
}

/// The sections that there is something to say in.
pub(super) fn of(report: &Report) -> Vec<Beside> {
    let mut opinions: Vec<_> = report
        .second_opinions
        .iter()
        .take(MAX_OPINIONS)
        .map(opinion)
        .collect();
    let more = report.second_opinions.len().saturating_sub(MAX_OPINIONS);
    if more > 0 {
        opinions.push(format!("and {} more", counted(more, "opinion", "opinions")));
    }
    let sections = [
        Beside {
            title: "Where the bill went",
            lines: bill(&report.ledger),
        },
        Beside {
            title: "Second opinions",
            lines: opinions,
        },
    ];
    sections
        .into_iter()
        .filter(|section| !section.lines.is_empty())
        .collect()
}

/// Closed days together, and those that the cloud still changes together.
fn bill(days: &[LedgerDay]) -> Vec<String> {
    let together = |open: bool| {
        let of_it = || days.iter().filter(move |day| day.estimated == open);
        let sum = |part: fn(&LedgerDay) -> Usd| of_it().map(part).sum::<Usd>();
        let (first, last) = (of_it().next()?, of_it().next_back()?);
        let span = match first.day == last.day {
            true => one_line(&first.day),
            false => format!("{} to {}", one_line(&first.day), one_line(&last.day)),
        };
        let unwatched = match sum(|day| day.unwatched) {
            Usd::ZERO => String::new(),
            usd => format!(" ({usd} of it on machines while no probe watched)"),
        };
        let open = if open {
            ", estimated: the bill is open"
        } else {
            ""
        };
        Some(format!(
            "{span}: {} billed = {} steps + {} findings + {} idle + {} not allocated{unwatched}{open}",
            sum(|day| day.billed),
            sum(|day| day.steps),
            sum(|day| day.findings),
            sum(|day| day.idle),
            sum(LedgerDay::unallocated),
        ))
    };
    [false, true].into_iter().filter_map(together).collect()
}

fn opinion(said: &SecondOpinion) -> String {
    let mut line = format!(
        "{}: {} {}",
        said.adviser,
        one_line(&said.resource),
        one_line(&said.finding)
    );
    if let Some(instead) = &said.instead {
        line.push_str(&format!(", instead {}", one_line(instead)));
    }
    if let Some(saving) = said.saving_a_month {
        line.push_str(&format!(", {saving} a month"));
    }
    line.push_str(match said.ours {
        Some(_) => "; so do we",
        None => "; we have no finding about it",
    });
    line
}

#[cfg(test)]
mod tests {
    use ebb_domain::report::Adviser;

    use super::*;
    use crate::render::sample;

    #[test]
    fn the_bill_and_second_opinions_are_a_few_lines() {
        assert!(of(&sample::small()).is_empty());
        let mut report = sample::small();
        report.ledger.push(LedgerDay {
            day: "2026-03-01".to_owned(),
            estimated: true,
            billed: Usd::from_micros(3_000_000),
            steps: Usd::from_micros(1_000_000),
            elsewhere: Usd::from_micros(2_000_000),
            ..LedgerDay::default()
        });
        let said = SecondOpinion {
            adviser: Adviser::ComputeOptimizer,
            resource: "i-1".to_owned(),
            finding: "Overprovisioned".to_owned(),
            instead: Some("t3.large".to_owned()),
            saving_a_month: Some(Usd::from_micros(9_250_000)),
            ours: None,
        };
        report.second_opinions = vec![said; 22];
        let shown = of(&report);
        insta::assert_snapshot!(shown[0].lines[0], @"2026-03-01: $3.00 billed = $1.00 steps + $0.00 findings + $0.00 idle + $2.00 not allocated, estimated: the bill is open");
        insta::assert_snapshot!(shown[1].lines[0], @"Compute Optimizer: i-1 Overprovisioned, instead t3.large, $9.25 a month; we have no finding about it");
        assert_eq!(shown[1].lines[20], "and 2 opinions more");
    }
}
