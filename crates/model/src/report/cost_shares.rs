//! The cost of machines by the tasks on them: by run, pipeline, step, user and cost centre.

use std::collections::BTreeMap;
use std::fmt;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

use crate::policy::costs::{AllocationMethod, RestOfMachine};

/// A name that divides costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostDimension {
    /// The pipeline run.
    Run,
    /// The pipeline.
    Pipeline,
    /// The step: a process, rule or job name.
    Step,
    /// The label `user` of a scheduler, otherwise the owner of the job or of the machine, otherwise
    /// the user id on the machine.
    User,
    /// The tag that `costs.cost_centre_tag` of the policy names.
    CostCentre,
}

impl CostDimension {
    /// All dimensions.
    pub const ALL: [Self; 5] = [
        Self::Run,
        Self::Pipeline,
        Self::Step,
        Self::User,
        Self::CostCentre,
    ];

    /// The name in a query, such as `cost_centre`.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Pipeline => "pipeline",
            Self::Step => "step",
            Self::User => "user",
            Self::CostCentre => "cost_centre",
        }
    }
}

impl fmt::Display for CostDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::CostCentre => "cost centre",
            other => other.slug(),
        })
    }
}

/// One value of a dimension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostName {
    /// A name.
    Name(String),
    /// Tasks of which no source names it.
    Unknown,
    /// Tasks with other names, which cost less.
    Others,
}

impl CostName {
    /// The name; `None` if it is not a single known name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Unknown | Self::Others => None,
        }
    }
}

/// The cost of machines by day and by task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CostShares {
    /// The part of its machine that a task occupies.
    pub method: AllocationMethod,
    /// Where the part of a machine is shown that no task occupies.
    pub rest: RestOfMachine,
    /// The tag of cost centres; `None` if the policy names none.
    pub cost_centre_tag: Option<String>,
    /// The days, the oldest first. Empty without a bill and without a price.
    pub days: Vec<CostDay>,
    /// By run, pipeline, user and cost centre, the most expensive first, at most
    /// `ebb_analysis::cost_allocation::share_sums::MAX_SHARES`.
    pub by_run: Vec<CostShare>,
    /// By step, pipeline, user and cost centre, with the same limit.
    pub by_step: Vec<CostShare>,
}

/// One day. The costs of the tasks and of the rest add up to the total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostDay {
    /// `YYYY-MM-DD`, UTC.
    pub day: String,
    /// Whether the total is billed, or only the machines at their prices.
    pub source: CostSource,
    /// True while the cloud provider may still change the bill; always true for prices.
    pub estimated: bool,
    /// The bill of the day, or the sum of the prices of all machines.
    #[serde(rename = "total_usd", alias = "total")]
    pub total: Usd,
    /// The part of the total that is only an upper bound: Spot machines at their on-demand price.
    #[serde(rename = "upper_bound_usd", default)]
    pub upper_bound: Usd,
    /// The cost that belongs to no task.
    #[serde(rename = "rest_usd", alias = "rest")]
    pub rest: BTreeMap<RestKind, Usd>,
    /// The part of that cost on machines with a cost centre.
    #[serde(
        rename = "rest_by_cost_centre",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub rest_by_centre: Vec<CentreRest>,
    /// Number of machines that are neither on the bill nor have a price: those with tasks, and on a
    /// day without a bill all that ran. The total does not contain them.
    pub machines_without_price: usize,
}

/// The cost of the machines of one cost centre that belongs to no task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CentreRest {
    /// The value of the tag that [`CostShares::cost_centre_tag`] names, of the machines.
    pub name: CostName,
    /// The cost.
    #[serde(rename = "rest_usd")]
    pub rest: BTreeMap<RestKind, Usd>,
}

/// The source of the cost of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The bill of the cloud provider: all services.
    Bill,
    /// The prices of the machines that the inventory contains, because there is no bill yet.
    Prices,
}

/// Cost that belongs to no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestKind {
    /// Waste on machines that findings report.
    Findings,
    /// Services and login sessions.
    OtherWork,
    /// All other time that a probe observed.
    Idle,
    /// Time without a probe.
    Unwatched,
    /// Other services, and machines that are not known.
    Elsewhere,
    /// The difference between the bill of the machines and its sum by machine.
    Rounding,
}

impl fmt::Display for RestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Findings => "waste in findings",
            Self::OtherWork => "services and sessions",
            Self::Idle => "idle",
            Self::Unwatched => "without a probe",
            Self::Elsewhere => "other services and machines",
            Self::Rounding => "rounding",
        })
    }
}

/// The cost of the tasks with the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostShare {
    /// The value of each dimension of the table.
    pub names: BTreeMap<CostDimension, CostName>,
    /// By day (`YYYY-MM-DD`, UTC); days without a task are left out.
    pub by_day: BTreeMap<String, DayShare>,
}

/// The cost of tasks on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DayShare {
    /// Number of tasks with a cost that ended, or were last observed, on this day.
    pub tasks: usize,
    /// Number of such tasks on machines without a price.
    pub tasks_without_price: usize,
    /// The part of the machines that they occupied.
    #[serde(rename = "used_usd", alias = "used")]
    pub used: Usd,
    /// Their part of what no task occupied in the hours in which they ran. It is a part of the rest
    /// of the day, unless [`CostShares::rest`] is `spread`.
    #[serde(rename = "unused_usd", alias = "unused")]
    pub unused: Usd,
}

impl DayShare {
    /// Adds the cost of other tasks.
    pub fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.tasks_without_price += other.tasks_without_price;
        self.used = self.used + other.used;
        self.unused = self.unused + other.unused;
    }

    /// Whether the tasks ran on machines without a price only, so that their cost is unknown.
    pub fn is_unknown(&self) -> bool {
        let has_cost = self.used != Usd::ZERO || self.unused != Usd::ZERO;
        self.tasks == 0 && self.tasks_without_price > 0 && !has_cost
    }

    /// The cost that the tasks pay.
    pub fn cost(&self, rest: RestOfMachine) -> Usd {
        match rest {
            RestOfMachine::Apart => self.used,
            RestOfMachine::Spread => self.used + self.unused,
        }
    }
}
