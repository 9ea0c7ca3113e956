//! The explanation of a resource, as the last sweep stored it.

use anyhow::{Context, Error, Result, anyhow};
use ebb_analysis::explain::{Explanation, MAX_EXPLAINED};
use ebb_cloud::documents::task_lists::{DetailFolder, DetailIndex, read_index, read_shared};
use ebb_cloud::ports::Objects;
use ebb_model::finding_kind::current_id;
use ebb_model::report::Report;
use ebb_telemetry::safe_text::{counted, one_line};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::api_client::{ApiClient, ApiProblem, segment};
use super::opened::{Deployment, newest_report};
use super::run_tasks::DETAILS_NEED;
use crate::similar_names;

/// An explanation with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DatedExplanation {
    /// The sweep that stored it; `None` if it is evaluated now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Timestamp>,
    #[serde(flatten)]
    pub(crate) explanation: Explanation,
}

impl From<Explanation> for DatedExplanation {
    fn from(explanation: Explanation) -> Self {
        Self {
            at: None,
            explanation,
        }
    }
}

/// The stored explanation of the resource with this id or name, or of the resource of the finding
/// with this id.
///
/// # Errors
/// If the last sweep stored none, with the reason.
pub(crate) async fn stored_explanation(
    deployment: &Deployment,
    name: &str,
) -> Result<DatedExplanation> {
    match deployment {
        Deployment::Stored(stored) => of_objects(stored.objects.as_ref(), name).await,
        Deployment::Api(api) => of_api(api, name).await,
    }
}

async fn of_objects(objects: &dyn Objects, name: &str) -> Result<DatedExplanation> {
    let index = read_index(objects).await.context(DETAILS_NEED)?;
    let index = index.with_context(|| no_documents(name))?.content;
    let report = newest_report(objects).await?;
    let ids = ids_of(&report, name);
    let mut explanations = Vec::new();
    for id in ids.iter().take(MAX_EXPLAINED) {
        explanations.extend(of_document(objects, &index, id).await?);
    }
    let left_out = ids.len().saturating_sub(MAX_EXPLAINED);
    let explanation = together(explanations, left_out);
    let explanation = explanation.ok_or_else(|| missing(&report, &index, name))?;
    Ok(DatedExplanation {
        at: Some(index.at),
        explanation,
    })
}

async fn of_document(
    objects: &dyn Objects,
    index: &DetailIndex,
    id: &str,
) -> Result<Option<Explanation>> {
    let folder = DetailFolder::Explanations;
    let document = (folder, folder.count(index).number_of(id));
    let document = read_shared::<Explanation>(objects, document).await;
    let document = document.context(DETAILS_NEED)?;
    Ok(document.and_then(|mut document| document.content.remove(id)))
}

/// Several explanations as one with others.
fn together(explanations: Vec<Explanation>, left_out: usize) -> Option<Explanation> {
    let mut all = explanations.into_iter();
    let first = all.next()?;
    Some(Explanation {
        others: all.collect(),
        others_left_out: left_out,
        ..first
    })
}

/// The answer of the API to the id of a resource or finding.
#[derive(Deserialize)]
struct ExplanationBody {
    at: Timestamp,
    explanation: Explanation,
}

async fn of_api(api: &ApiClient, name: &str) -> Result<DatedExplanation> {
    let ask = async |id: &str| -> Result<ExplanationBody, ApiProblem> {
        api.read(&format!("/v1/explain/{}", segment(id))).await
    };
    let refusal = match ask(name).await {
        Ok(body) => {
            return Ok(DatedExplanation {
                at: Some(body.at),
                explanation: body.explanation,
            });
        }
        // The API knows only ids.
        Err(ApiProblem::Name(refusal)) => refusal,
        Err(problem) => return Err(problem.into()),
    };
    let Ok(report) = api.newest_report().await else {
        return Err(refusal);
    };
    let ids = ids_of(&report, name);
    let (mut at, mut explanations) = (None, Vec::new());
    for id in ids.iter().filter(|id| *id != name).take(MAX_EXPLAINED) {
        match ask(id).await {
            Ok(body) => {
                at = Some(body.at);
                explanations.push(body.explanation);
            }
            Err(ApiProblem::Name(_)) => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    let left_out = ids.len().saturating_sub(MAX_EXPLAINED);
    match together(explanations, left_out) {
        Some(explanation) => Ok(DatedExplanation { at, explanation }),
        None => Err(match known_names(&report).any(|known| known == name) {
            true => refusal,
            false => unknown_name(&report, name),
        }),
    }
}

/// The ids of the resources with this id or name that a sweep may have explained: those with a
/// finding, and those that it did not evaluate.
fn ids_of(report: &Report, name: &str) -> Vec<String> {
    let id = current_id(name);
    let findings = || report.findings.iter();
    if let Some(finding) = findings().find(|finding| finding.id == id) {
        return vec![finding.resource.id.clone()];
    }
    let of_findings = findings().map(|finding| &finding.resource);
    let of_findings = of_findings.map(|one| (&one.id, one.name.as_deref()));
    let not_evaluated = report.not_evaluated.iter();
    let not_evaluated = not_evaluated.map(|one| (&one.resource, one.name.as_deref()));
    let nodes = report.nodes.iter();
    let nodes = nodes.map(|node| (&node.id, node.name.as_deref()));
    let mut ids = Vec::new();
    for (id, other) in of_findings.chain(not_evaluated).chain(nodes) {
        if (id == name || other == Some(name)) && !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    if ids.is_empty() {
        ids.push(name.to_owned());
    }
    ids
}

/// The ids and names that a report shows.
fn known_names(report: &Report) -> impl Iterator<Item = &str> {
    let findings = report.findings.iter();
    let findings = findings.flat_map(|finding| {
        let resource = &finding.resource;
        [&finding.id, &resource.id]
            .into_iter()
            .chain(&resource.name)
    });
    let not_evaluated = report.not_evaluated.iter();
    let not_evaluated =
        not_evaluated.flat_map(|one| std::iter::once(&one.resource).chain(&one.name));
    let nodes = report.nodes.iter();
    let nodes = nodes.flat_map(|node| std::iter::once(&node.id).chain(&node.name));
    findings
        .chain(not_evaluated)
        .chain(nodes)
        .map(String::as_str)
}

fn unknown_name(report: &Report, name: &str) -> Error {
    let hint = similar_names::similar_hint(name, known_names(report));
    let hint = hint.map_or_else(String::new, |hint| format!("\n  {hint}"));
    anyhow!(
        "no explanation of '{}': the last sweep reported nothing with this id or name{hint}\n  \
         `ebb findings list` shows all findings",
        one_line(name)
    )
}

fn no_documents(name: &str) -> String {
    format!(
        "no explanation of '{}': the deployment stores no explanations\n  sweeps of an earlier \
         version store none; deploy the present version, and the next sweep stores them\n  or \
         explain a new scan of the account: ebb scan --explain NAME",
        one_line(name)
    )
}

fn missing(report: &Report, index: &DetailIndex, name: &str) -> Error {
    if !known_names(report).any(|known| known == name) {
        return unknown_name(report, name);
    }
    let left_out = match index.explanations_left_out {
        0 => String::new(),
        count => format!(
            "\n  a limit left out {}",
            counted(count, "explanation", "explanations")
        ),
    };
    anyhow!(
        "no explanation of '{}' is stored\n  a sweep stores explanations of resources with a \
         finding and of resources that it did not evaluate{left_out}\n  for others, explain a new \
         scan of the account: ebb scan --explain NAME",
        one_line(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::demo_deployment::DemoDeployment;

    #[tokio::test]
    async fn an_id_or_name_or_finding_leads_to_what_the_sweep_found() {
        let demo = DemoDeployment::new().await;
        let at = Some(demo.report.at);
        for deployment in demo.both() {
            for finding in &demo.report.findings {
                let id = &finding.resource.id;
                let expect = &demo.details.explanations.by_resource[id];
                assert!(!expect.findings.is_empty(), "{id}");
                for name in [id, &finding.id] {
                    let stored = stored_explanation(&deployment, name).await.expect(name);
                    assert_eq!((stored.at, &stored.explanation), (at, expect), "{name}");
                }
            }
            let by_name = stored_explanation(&deployment, "align-sample-17").await;
            let by_name = by_name.expect("the name of a job").explanation;
            assert!(
                by_name.resource.starts_with("5f3c2a10-0001-"),
                "{by_name:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_error_says_why_nothing_is_stored() {
        let (new, old) = (
            DemoDeployment::new().await,
            DemoDeployment::of_earlier_version(),
        );
        let check = async |demo: &DemoDeployment, name: &str, expect: [&str; 2]| {
            for (deployment, expect) in demo.both().iter().zip(expect) {
                let error = stored_explanation(deployment, name).await.expect_err(name);
                let error = format!("{error:#}");
                assert!(error.contains(expect), "{error}");
                assert!(!error.contains('\u{1b}'), "{error:?}");
            }
        };
        let similar = ["similar: i-0b7d3f5a9c1e2d406"; 2];
        check(&new, "i-0b7d3f5a9c1e2d407", similar).await;
        check(&new, "\u{1b}[31m", ["nothing with this id or name"; 2]).await;
        check(&new, "..", ["nothing with this id or name"; 2]).await;
        let silent = demo_node_without_explanation(&new);
        let expect = ["resources with a finding", "resources with a finding"];
        check(&new, &silent, expect).await;
        let update = ["stores no explanations", "No explanation of"];
        check(&old, "i-0b7d3f5a9c1e2d406", update).await;
        let index = ebb_cloud::documents::task_lists::INDEX;
        new.bucket.insert(index, b"{".to_vec());
        check(&new, "align-sample-17", ["is not valid", "HTTP 500"]).await;
    }

    /// A node that a rule evaluated and that has no finding.
    fn demo_node_without_explanation(demo: &DemoDeployment) -> String {
        let explained = &demo.details.explanations.by_resource;
        let mut nodes = demo.report.nodes.iter().map(|node| &node.id);
        let silent = nodes.find(|id| !explained.contains_key(*id));
        silent.expect("a node in use").clone()
    }

    #[test]
    fn resources_of_one_name_are_others_and_those_beyond_the_limit_are_counted() {
        let named = |resource: &str| Explanation {
            resource: resource.to_owned(),
            ..Explanation::default()
        };
        assert_eq!(together(Vec::new(), 0), None);
        let all = together(vec![named("a"), named("b"), named("c")], 4).expect("three");
        let others: Vec<&str> = all.others.iter().map(|one| &*one.resource).collect();
        assert_eq!((&*all.resource, others), ("a", vec!["b", "c"]));
        assert_eq!(all.others_left_out, 4);
    }
}
