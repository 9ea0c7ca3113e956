//! The tasks of the agent of Amazon ECS. Pure.

use std::collections::HashMap;

use ebb_telemetry::step::SchedulerLabels;
use serde::Deserialize;

use super::{ContainerDescription, Runtime};

/// The path of the request.
pub const REQUEST: &str = "/v1/tasks";

/// The response. Its other fields are skipped; none of them is the environment.
///
/// Source: "Amazon ECS container agent introspection", Amazon ECS Developer Guide; `TasksResponse`
/// in `agent/handlers/v1/response.go` of amazon-ecs-agent.
#[derive(Debug, Deserialize)]
struct Response {
    #[serde(rename = "Tasks", default)]
    tasks: Option<Vec<Task>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Task {
    arn: String,
    #[serde(default)]
    family: Option<String>,
}

/// The tasks in a response, by task id. The family of a task is the name of its definition.
///
/// # Errors
/// If the response is not a list of tasks.
pub fn parse(response: &[u8]) -> Result<HashMap<String, ContainerDescription>, serde_json::Error> {
    let response: Response = serde_json::from_slice(response)?;
    let tasks = response.tasks.unwrap_or_default().into_iter();
    let described = tasks.filter_map(|task| {
        let (_, id) = task.arn.rsplit_once('/')?;
        let description = ContainerDescription {
            name: task.family.as_deref().and_then(SchedulerLabels::value),
            ..ContainerDescription::reported_by(Runtime::Ecs)
        };
        Some((id.to_owned(), description))
    });
    Ok(described.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Developer Guide.
    #[test]
    fn a_task_has_the_name_of_its_family() {
        let response = br#"{"Tasks":[{"Arn":"arn:aws:ecs:us-west-2:012345678910:task/default/e01d58a8-151b-40e8-bc01-22647b9ecfec",
            "Containers":[{"DockerId":"79c796ed2a7f","DockerName":"ecs-hello_world-1-mysql","Name":"mysql"}],
            "DesiredStatus":"RUNNING","Family":"hello_world","KnownStatus":"RUNNING","Version":"7"}]}"#;
        let tasks = parse(response).expect("a list");
        let task = &tasks["e01d58a8-151b-40e8-bc01-22647b9ecfec"];
        assert_eq!(task.task_name(), Some("hello_world"));
        assert_eq!(
            parse(b"{\"Tasks\":null}").map(|all| all.len()).ok(),
            Some(0)
        );
        assert_eq!(
            parse(b"{\"Tasks\":[{\"Arn\":\"x\"}]}")
                .map(|all| all.len())
                .ok(),
            Some(0)
        );
        assert!(parse(b"<html>").is_err());
    }
}
