//! The condition of probes.

use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_model::report::unwatched_machine::UnwatchedMachines;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Head, OfReport, Paged};
use crate::extract::{Newest, Page, Query};
use crate::problem::Problem;

/// Filters of probes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeQuery {
    #[serde(flatten)]
    page: Page,
    /// Only with this way of observing processes
    mode: Option<ProbeMode>,
}

/// A page of probes.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Probes<'a> {
    /// Number of probes that did not fit into the report.
    probes_left_out: usize,
    /// Running machines without a probe.
    unwatched: &'a UnwatchedMachines,
    #[serde(flatten)]
    page: Paged<&'a ProbeSummary>,
}

/// Lists probes, those with the most urgent problem first.
pub(crate) async fn probes(
    Query(query): Query<ProbeQuery>,
    newest: Newest,
) -> Result<Answer<OfReport<'static, Probes<'static>>>, Problem> {
    let report = &newest.report;
    let probes = report.probes.iter();
    let wanted = probes.filter(|probe| query.mode.is_none_or(|mode| probe.mode == mode));
    let part = Probes {
        probes_left_out: report.probes_left_out,
        unwatched: &report.unwatched,
        page: Paged::cut(&query.page, wanted.collect(), |probe| {
            probe.node.to_string()
        })?,
    };
    let head = Head::new("ebb.probes/1", report);
    Answer::json(&OfReport { head, part }, &newest.version)
}
