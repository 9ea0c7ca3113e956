//! The lists of the API: the path and the filters of each.

use ebb_model::decision::Verb;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::InstanceState;
use ebb_model::report::workflow_runs::JoinedBy;
use ebb_telemetry::step::StepKind;

use crate::problem::Problem;
use crate::variants::variants;

/// A list of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// Findings of every kind.
    Findings,
    /// The same as recommendations; findings without a remedy are left out.
    Recommendations,
    /// All nodes.
    Nodes,
    /// All steps with their present and recommended requests.
    Steps,
    /// Pipelines with the cost of all their steps.
    Pipelines,
    /// Compute environments with the steps that they run.
    Environments,
    /// Runs with the labels of their steps.
    Runs,
    /// Decisions of people about findings.
    Decisions,
    /// List prices of machine types.
    Prices,
}

/// A filter of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// The allowed values; empty for any value.
    pub(crate) values: &'static [&'static str],
}

const REGION: (&str, &str) = ("region", "Only of this region");

const ACCOUNT: (&str, &str) = ("account", "Only of this account");

const OWNER: (&str, &str) = ("owner", "Only of this owner");

const KIND: (&str, &str) = ("kind", "Only of this kind");

const TYPE: (&str, &str) = ("instance_type", "Only of this machine type");

impl List {
    pub(crate) const ALL: [Self; 9] = [
        Self::Findings,
        Self::Recommendations,
        Self::Nodes,
        Self::Steps,
        Self::Pipelines,
        Self::Environments,
        Self::Runs,
        Self::Decisions,
        Self::Prices,
    ];

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Findings => "/v1/findings",
            Self::Recommendations => "/v1/recommendations",
            Self::Nodes => "/v1/nodes",
            Self::Steps => "/v1/steps",
            Self::Pipelines => "/v1/pipelines",
            Self::Environments => "/v1/environments",
            Self::Runs => "/v1/runs",
            Self::Decisions => "/v1/decisions",
            Self::Prices => "/v1/prices",
        }
    }

    /// The name of the schema of its entries.
    pub(crate) const fn schema(self) -> &'static str {
        match self {
            Self::Findings => "ebb.findings/2",
            Self::Recommendations => "ebb.recommendations/2",
            Self::Nodes => "ebb.nodes/2",
            Self::Steps => "ebb.step_list/2",
            Self::Pipelines => "ebb.pipelines/2",
            Self::Environments => "ebb.environments/2",
            Self::Runs => "ebb.runs/2",
            Self::Decisions => "ebb.decision_list/1.0",
            Self::Prices => "ebb.prices/2",
        }
    }

    pub(crate) fn filters(self) -> Vec<Filter> {
        let any = |(name, description)| Filter {
            name,
            description,
            values: &[],
        };
        let of = |(name, description), values| Filter {
            name,
            description,
            values,
        };
        let state = ("state", "Only those that stand so");
        let family = ("family", "Only of this family, such as c7a");
        match self {
            Self::Findings | Self::Recommendations => {
                vec![
                    any(REGION),
                    any(ACCOUNT),
                    of(KIND, variants::<FindingKind>()),
                    any(OWNER),
                ]
            }
            Self::Nodes => vec![
                any(REGION),
                of(state, variants::<InstanceState>()),
                any(TYPE),
                any(OWNER),
            ],
            Self::Steps => vec![
                any(REGION),
                any(ACCOUNT),
                of(KIND, variants::<StepKind>()),
                any(OWNER),
            ],
            Self::Pipelines | Self::Environments => vec![any(REGION), any(ACCOUNT), any(OWNER)],
            Self::Runs => vec![
                any(("pipeline", "Only of this pipeline")),
                of(("by", "Only those joined by this"), variants::<JoinedBy>()),
            ],
            Self::Decisions => vec![
                of(("verb", "Only what was decided so"), variants::<Verb>()),
                of(
                    ("holds", "Only those that hold, or do not any more"),
                    &["true", "false"],
                ),
                any(("by", "Only of this person")),
            ],
            Self::Prices => vec![any(REGION), any(family), any(TYPE)],
        }
    }

    /// The list with this path; `None` if there is none.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.path() == path)
    }
}

impl Filter {
    /// Refuses a value that is not allowed.
    pub(crate) fn check(&self, value: &str) -> Result<(), Problem> {
        match self.values.is_empty() || self.values.contains(&value) {
            true => Ok(()),
            false => Err(Problem::Query(format!(
                "{}: there is none called '{value}'.",
                self.name
            ))),
        }
    }
}
