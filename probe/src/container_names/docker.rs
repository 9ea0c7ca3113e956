//! The list of containers from Docker. Pure.

use std::collections::{BTreeMap, HashMap};

use ebb_telemetry::step::SchedulerLabels;
use serde::Deserialize;

use super::{ContainerDescription, Runtime, is_container_id, sent_labels};

/// Maximum number of containers in one request. The ids are in the address of the request, which
/// may have some kilobytes.
pub const MAX_IDS: usize = 64;

/// One container. Its other fields, such as `Command` and `Mounts`, are skipped. None of them is
/// the environment.
///
/// Source: Docker Engine API, `GET /containers/json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

/// The path and query of a request for containers with these ids, running or ended. `None` if there
/// is no id.
pub fn request<'a>(ids: impl Iterator<Item = &'a str>) -> Option<String> {
    let ids = ids.filter(|id| is_container_id(id)).take(MAX_IDS);
    let quoted: Vec<String> = ids.map(|id| format!("%22{id}%22")).collect();
    let list = quoted.join(",");
    (!quoted.is_empty())
        .then(|| format!("/containers/json?all=1&filters=%7B%22id%22:%5B{list}%5D%7D"))
}

/// The containers in a response, by id.
///
/// # Errors
/// If the response is not a list of containers.
pub fn parse(response: &[u8]) -> Result<HashMap<String, ContainerDescription>, serde_json::Error> {
    let containers: Vec<Container> = serde_json::from_slice(response)?;
    let described = containers
        .into_iter()
        .take(MAX_IDS)
        .filter(|one| is_container_id(&one.id));
    Ok(described
        .map(|one| (one.id.clone(), describe(&one)))
        .collect())
}

fn describe(container: &Container) -> ContainerDescription {
    // A name begins with `/`. A name with a second one is that of a link from another container.
    let names = container.names.iter().flatten();
    let own = names.filter_map(|name| name.strip_prefix('/'));
    let name = own
        .filter(|name| !name.contains('/'))
        .find_map(SchedulerLabels::value);
    ContainerDescription {
        name,
        image: container.image.as_deref().and_then(SchedulerLabels::value),
        labels: container
            .labels
            .as_ref()
            .map(sent_labels)
            .unwrap_or_default(),
        ..ContainerDescription::reported_by(Runtime::Docker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd";

    #[test]
    fn a_request_has_the_ids_and_nothing_else() {
        let path = request([ID, "\"}&x="].into_iter()).expect("one id");
        assert_eq!(
            path,
            format!("/containers/json?all=1&filters=%7B%22id%22:%5B%22{ID}%22%5D%7D")
        );
        assert_eq!(request(["7"].into_iter()), None);
    }

    /// The response of Docker 20.10.24, with fewer fields of the network.
    #[test]
    fn a_container_has_its_name_its_image_and_listed_labels() {
        let response = format!(
            r#"[{{"Id":"{ID}","Names":["/other/db","/lab-align-1"],"Image":"localhost/bwa:0.7.17",
            "ImageID":"sha256:7578","Command":"bwa --password hunter2","Created":1795472511,
            "Ports":[],"Labels":{{"com.docker.compose.service":"align","secret":"hunter2"}},
            "State":"running","Status":"Up Less than a second","HostConfig":{{"NetworkMode":"none"}},
            "NetworkSettings":{{"Networks":{{}}}},"Mounts":[]}}]"#
        );
        let got = parse(response.as_bytes()).expect("a list");
        let container = &got[ID];
        assert_eq!(container.name.as_deref(), Some("lab-align-1"));
        assert_eq!(container.image.as_deref(), Some("localhost/bwa:0.7.17"));
        assert_eq!(container.task_name(), Some("align"));
        assert!(!format!("{got:?}").contains("hunter2"), "{got:?}");
    }

    #[test]
    fn a_hostile_response_names_nothing() {
        let check = |response: &str, expect: Option<usize>| {
            let got = parse(response.as_bytes()).ok().map(|all| all.len());
            assert_eq!(got, expect, "{response}");
        };
        check("", None);
        check("{\"message\":\"no\"}", None);
        check("[{\"Id\":7}]", None);
        check("[]", Some(0));
        check("[{\"Id\":\"x\",\"Names\":[\"/a\"]}]", Some(0));
        let deep = "[".repeat(100_000);
        check(&deep, None);
        let nothing = format!("[{{\"Id\":\"{ID}\",\"Names\":null,\"Labels\":null}}]");
        check(&nothing, Some(1));
        let long = "x".repeat(129);
        let named = |name: &str| {
            let response = format!("[{{\"Id\":\"{ID}\",\"Names\":[\"/{name}\"]}}]");
            let all = parse(response.as_bytes()).expect("a list");
            all[ID].name.clone()
        };
        assert_eq!(named(&long), None);
        assert_eq!(named("a\\u001b[2J"), None);
        assert_eq!(named(""), None);
        assert_eq!(named("align"), Some("align".to_owned()));
    }
}
