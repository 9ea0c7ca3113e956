//! `ebb probes`: the condition of each probe, from its last heartbeat.

use anyhow::Result;
use ebb_model::report::Report;
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_model::report::unwatched_machine::UnwatchedMachines;
use ebb_report::probe_table::{self, ProbeList};
use ebb_report::zone::Zone;
use ebb_telemetry::safe_text::counted;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::args::{ProbesArgs, TableFormat};
use crate::deployment::{self, ApiClient, Deployment, Source};
use crate::output::{self, Outcome};
use crate::tune;

/// The probes of a report.
#[derive(Debug)]
struct Probes {
    at: Timestamp,
    probes: Vec<ProbeSummary>,
    left_out: usize,
    unwatched: UnwatchedMachines,
}

impl From<Report> for Probes {
    fn from(report: Report) -> Self {
        Self {
            at: report.at,
            probes: report.probes,
            left_out: report.probes_left_out,
            unwatched: report.unwatched,
        }
    }
}

pub(crate) fn run(args: &ProbesArgs, zone: &Zone) -> Result<Outcome> {
    let probes = match deployment::source(&args.of)? {
        Source::Deployment(target) => crate::runtime::runtime()?
            .block_on(async { of_deployment(&deployment::open(&target).await?).await })?,
        source => match tune::report(&source)? {
            Some(report) => report.into(),
            None => return Ok(tune::needs_a_report("probes")),
        },
    };
    let mode = args.mode.map(ProbeMode::from);
    output::write(&written(probes, mode, (args.format, zone)), None)?;
    Ok(Outcome::Done)
}

async fn of_deployment(deployment: &Deployment) -> Result<Probes> {
    match deployment {
        Deployment::Stored(_) => Ok(deployment.newest_report().await?.into()),
        Deployment::Api(api) => of_api(api).await,
    }
}

/// The part of the answer that all pages have.
#[derive(PartialEq, Deserialize)]
struct ProbesHead {
    at: Timestamp,
    probes_left_out: usize,
    /// Earlier versions do not answer it.
    #[serde(default)]
    unwatched: UnwatchedMachines,
}

/// A list of probes is smaller than a report, which the API may refuse.
async fn of_api(api: &ApiClient) -> Result<Probes> {
    let list = api.list::<ProbeSummary, ProbesHead>("/v1/probes").await;
    let (probes, head) = list.map_err(anyhow::Error::from)?;
    Ok(Probes {
        at: head.at,
        probes,
        left_out: head.probes_left_out,
        unwatched: head.unwatched,
    })
}

fn written(
    mut all: Probes,
    mode: Option<ProbeMode>,
    (format, zone): (TableFormat, &Zone),
) -> String {
    let probe_count = all.probes.len();
    all.probes
        .retain(|probe| mode.is_none_or(|mode| probe.mode == mode));
    match format {
        TableFormat::Table if all.probes.is_empty() && probe_count > 0 => {
            format!(
                "No probe has this mode; {} another one.\n",
                counted(probe_count, "probe has", "probes have")
            )
        }
        TableFormat::Table => {
            let list = ProbeList {
                at: all.at,
                probes: &all.probes,
                left_out: all.left_out,
                unwatched: &all.unwatched,
            };
            probe_table::table(list, zone, output::terminal_style().columns)
        }
        TableFormat::Csv => {
            if all.left_out > 0 {
                let more = counted(all.left_out, "probe", "probes");
                eprintln!("ebb: a limit left out {more}");
            }
            probe_table::csv(&all.probes)
        }
        TableFormat::Json => {
            let value = json!({
                "schema": "ebb.probe_list/1",
                "at": all.at,
                "probes": all.probes,
                "left_out": all.left_out,
                "unwatched": all.unwatched,
            });
            output::json(&value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::DemoDeployment;

    #[tokio::test]
    async fn a_bucket_and_an_api_have_the_same_probes() {
        let [stored, api] = DemoDeployment::of_earlier_version().both();
        let json = async |deployment: &Deployment| {
            let probes = of_deployment(deployment).await.expect("it answers");
            written(probes, None, (TableFormat::Json, &Zone::utc()))
        };
        let text = json(&stored).await;
        assert!(text.contains("\"heard_at\""), "{text}");
        assert_eq!(text, json(&api).await);
    }

    #[test]
    fn probes_are_filtered_by_their_mode() {
        let check = |mode: Option<ProbeMode>, expect: bool| {
            let (report, _) = tune::of_demo(0).expect("it is built in");
            let text = written(report.into(), mode, (TableFormat::Csv, &Zone::utc()));
            assert_eq!(text.lines().count() > 1, expect, "{text}");
        };
        check(None, true);
        check(Some(ProbeMode::Ebpf), true);
        check(Some(ProbeMode::Procfs), false);
    }
}
