//! Pipelines and compute environments: lists, and the recommendation for one.

use ebb_model::advice::group::{GroupAdvice, MAX_GROUPS};
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_workflows::export::environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::{Answer, Head, OfReport, PageOfReport, Paged, owner_totals};
use crate::extract::{Name, Newest, Page, Query, ResourceScope, is_owned_by, passes};
use crate::problem::Problem;

/// Filters of pipelines and environments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupQuery {
    #[serde(flatten)]
    page: Page,
    /// Only in this region
    region: Option<String>,
    /// Only in this account
    account: Option<String>,
    /// Only of this owner; `-` means without an owner
    owner: Option<String>,
}

/// A pipeline, as a tag or a launcher names it
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PipelineName(#[schemars(length(min = 1))] String);

/// A compute environment of AWS Batch
#[derive(Deserialize, JsonSchema)]
pub(crate) struct EnvironmentName(#[schemars(length(min = 1))] String);

/// The recommendation for a group, and how to apply it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Group<'a> {
    #[serde(flatten)]
    advice: &'a GroupAdvice,
    /// For an environment, input of `aws batch update-compute-environment --cli-input-json`; `None`
    /// if nothing is to change.
    #[schemars(with = "Option<Map<String, Value>>")]
    update: Option<Value>,
}

impl<'a> Group<'a> {
    fn pipeline(advice: &'a GroupAdvice) -> Self {
        let update = None;
        Self { advice, update }
    }

    fn environment(advice: &'a GroupAdvice) -> Self {
        let update = environment::update(advice).ok();
        Self { advice, update }
    }
}

type Groups = Answer<PageOfReport<'static, Group<'static>>>;

type OneGroup = Answer<OfReport<'static, Group<'static>>>;

/// Lists pipelines with the cost of all their steps.
pub(crate) async fn pipelines(
    Query(query): Query<GroupQuery>,
    newest: Newest,
) -> Result<Groups, Problem> {
    let part = page(&query, &newest.report.targets.pipelines)?.map(Group::pipeline);
    let totals = owner_totals(&newest.report, query.owner.as_ref());
    let head = Head::new("ebb.pipelines/2", &newest.report).with_totals(totals);
    Answer::json(&OfReport { head, part }, &newest.version)
}

/// Lists compute environments with the steps that they run.
pub(crate) async fn environments(
    Query(query): Query<GroupQuery>,
    newest: Newest,
) -> Result<Groups, Problem> {
    let part = page(&query, &newest.report.targets.environments)?.map(Group::environment);
    let totals = owner_totals(&newest.report, query.owner.as_ref());
    let head = Head::new("ebb.environments/2", &newest.report).with_totals(totals);
    Answer::json(&OfReport { head, part }, &newest.version)
}

/// The recommendation for one pipeline.
pub(crate) async fn pipeline(
    Name(PipelineName(name)): Name<PipelineName>,
    Query(place): Query<ResourceScope>,
    newest: Newest,
) -> Result<OneGroup, Problem> {
    let found = find(&newest.report.targets.pipelines, &name, &place)?;
    let part = found.map(Group::pipeline).ok_or_else(|| Problem::Target {
        what: "pipeline",
        detail: format!(
            "The report has no pipeline '{name}'. The tag {PIPELINE_TAG} of a job or machine, or the \
             launcher, names the pipeline of a run. The report contains the {MAX_GROUPS} largest \
             pipelines; /v1/pipelines lists them."
        ),
    })?;
    let head = Head::new("ebb.group/2", &newest.report).without_origin();
    Answer::json(&OfReport { head, part }, &newest.version)
}

/// The recommendation for one compute environment.
pub(crate) async fn environment(
    Name(EnvironmentName(name)): Name<EnvironmentName>,
    Query(place): Query<ResourceScope>,
    newest: Newest,
) -> Result<OneGroup, Problem> {
    let found = find(&newest.report.targets.environments, &name, &place)?;
    let part = found
        .map(Group::environment)
        .ok_or_else(|| Problem::Target {
            what: "environment",
            detail: format!(
                "The report has no environment '{name}'. It contains the {MAX_GROUPS} largest \
             environments that ran a step; /v1/environments lists them."
            ),
        })?;
    let head = Head::new("ebb.group/2", &newest.report).without_origin();
    Answer::json(&OfReport { head, part }, &newest.version)
}

fn page<'a>(
    query: &GroupQuery,
    groups: &'a [GroupAdvice],
) -> Result<Paged<&'a GroupAdvice>, Problem> {
    let wanted = groups.iter().filter(|group| {
        is_in(group, query.region.as_ref(), query.account.as_ref())
            && is_owned_by(query.owner.as_ref(), group.owner.as_deref())
    });
    Paged::cut(&query.page, wanted.collect(), id_of)
}

/// The group of this name; `None` if there is none.
fn find<'a>(
    groups: &'a [GroupAdvice],
    name: &str,
    place: &ResourceScope,
) -> Result<Option<&'a GroupAdvice>, Problem> {
    let named = groups.iter().filter(|group| {
        group.name == name && is_in(group, place.region.as_ref(), place.account.as_ref())
    });
    match named.collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [group] => Ok(Some(group)),
        ref many => Err(Problem::Ambiguous {
            what: name.to_owned(),
            ids: many.iter().map(id_of).collect(),
        }),
    }
}

fn is_in(group: &GroupAdvice, region: Option<&String>, account: Option<&String>) -> bool {
    passes(region, Some(group.region.as_str()))
        && passes(account, group.account.as_ref().map(AccountId::as_str))
}

/// The cursor of a group in its list.
fn id_of(group: &&GroupAdvice) -> String {
    let (region, name) = (&group.region, &group.name);
    match &group.account {
        Some(account) => format!("{account}/{region}/{name}"),
        None => format!("{region}/{name}"),
    }
}
