//! Recommendations for a pipeline, a compute environment and a node.

use ebb_model::advice::group::{GroupAdvice, MAX_GROUPS};
use ebb_model::advice::node::{MAX_NODES, NodeAdvice};
use ebb_model::report::Report;
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_workflows::export::environment;
use serde::Serialize;
use serde_json::Value;

use crate::answer::{OfReport, cut, head, json};
use crate::list::List;
use crate::problem::Problem;
use crate::query::{Only, PLACE, Page};
use crate::report_parts::owner_totals;

/// The kind of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Pipeline,
    Environment,
    Node,
}

impl Target {
    pub(crate) const ALL: [Self; 3] = [Self::Pipeline, Self::Environment, Self::Node];

    /// The name of its path parameter.
    pub(crate) const fn parameter(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Environment => "environment",
            Self::Node => "node",
        }
    }

    /// The first part of its path.
    pub(crate) const fn head(self) -> &'static str {
        match self {
            Self::Pipeline => "/v1/pipelines/",
            Self::Environment => "/v1/environments/",
            Self::Node => "/v1/nodes/",
        }
    }

    /// The parameters that distinguish targets of the same name; empty for a node, whose id is
    /// unique.
    pub(crate) const fn place(self) -> &'static [&'static str] {
        match self {
            Self::Pipeline | Self::Environment => &PLACE,
            Self::Node => &["region"],
        }
    }

    /// The problem for a name that does not exist.
    fn none(self, name: &str) -> Problem {
        let why = match self {
            Self::Pipeline => format!(
                "A run belongs to a pipeline by the tag {PIPELINE_TAG} of its job or machine, or \
                 as its launcher names it; the {MAX_GROUPS} largest are told. /v1/pipelines lists \
                 them."
            ),
            Self::Environment => format!(
                "The {MAX_GROUPS} largest that ran a step are told. /v1/environments lists them."
            ),
            Self::Node => format!(
                "The {MAX_NODES} dearest running nodes with a probe are told. /v1/nodes lists all."
            ),
        };
        Problem::Target {
            what: self.parameter(),
            detail: format!("There is no {} '{name}'. {why}", self.parameter()),
        }
    }
}

/// The recommendation for a group, and how to apply it.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    advice: &'a GroupAdvice,
    /// For an environment, input of `aws batch update-compute-environment --cli-input-json`; `None`
    /// if nothing is to change.
    update: Option<Value>,
}

/// A page of the pipelines or environments of a report.
pub(crate) fn groups(list: List, page: &Page, report: &Report) -> Result<String, Problem> {
    let target = match list {
        List::Environments => Target::Environment,
        _ => Target::Pipeline,
    };
    let only = &page.only;
    let is_wanted =
        |group: &&GroupAdvice| is_there(group, only) && only.lets("owner", group.owner.as_deref());
    let wanted = of(target, report).iter().filter(is_wanted);
    let part = cut(page, wanted.collect(), id_of)?.map(|group| told(target, group));
    let head = head(list.schema(), report).with_totals(owner_totals(report, only));
    json(&OfReport { head, part })
}

/// The recommendation for one target.
pub(crate) fn answer(
    target: Target,
    (name, only): (&str, &Only),
    report: &Report,
) -> Result<String, Problem> {
    if target == Target::Node {
        let mut all = report.targets.nodes.iter();
        let found =
            all.find(|node| node.node == name && only.lets("region", Some(node.region.as_str())));
        let part: &NodeAdvice = found.ok_or_else(|| target.none(name))?;
        let head = head("ebb.node/2", report);
        return json(&OfReport { head, part });
    }
    let named = of(target, report).iter();
    let named = named.filter(|group| group.name == name && is_there(group, only));
    let part = match named.collect::<Vec<_>>()[..] {
        [] => return Err(target.none(name)),
        [group] => told(target, group),
        ref many => {
            return Err(Problem::Ambiguous {
                what: name.to_owned(),
                ids: many.iter().map(id_of).collect(),
            });
        }
    };
    let head = head("ebb.group/2", report);
    json(&OfReport { head, part })
}

fn is_there(group: &GroupAdvice, only: &Only) -> bool {
    only.lets("region", Some(group.region.as_str()))
        && only.lets("account", group.account.as_ref().map(AccountId::as_str))
}

/// The cursor of a group in its list.
fn id_of(group: &&GroupAdvice) -> String {
    let (region, name) = (&group.region, &group.name);
    match &group.account {
        Some(account) => format!("{account}/{region}/{name}"),
        None => format!("{region}/{name}"),
    }
}

fn of(target: Target, report: &Report) -> &[GroupAdvice] {
    match target {
        Target::Environment => &report.targets.environments,
        Target::Pipeline | Target::Node => &report.targets.pipelines,
    }
}

fn told(target: Target, advice: &GroupAdvice) -> Told<'_> {
    let update = match target {
        Target::Environment => environment::update(advice).ok(),
        Target::Pipeline | Target::Node => None,
    };
    Told { advice, update }
}
