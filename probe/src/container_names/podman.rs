//! Containers of Podman, from the arguments of their monitor and from the list in its storage.
//! Pure.

use std::collections::HashMap;

use ebb_telemetry::step::SchedulerLabels;
use serde::Deserialize;

use super::{ContainerDescription, Runtime, is_container_id};

/// The program that monitors a container. It is the parent of the first process of the container.
pub const MONITOR: &str = "conmon";

/// The name of the container with this id, from the arguments of its monitor, separated by NUL. No
/// other argument is used. `None` for the monitor of another container.
///
/// Source: Podman, `sharedConmonArgs` in `libpod/oci_conmon_common.go`: `-c ID` and `-n NAME` come
/// before all arguments whose values a user can choose.
pub fn name_in_monitor(arguments: &[u8], id: &str) -> Option<String> {
    let mut arguments = arguments.split(|byte| *byte == 0).skip(1);
    let mut is_of_container = false;
    while let Some(option) = arguments.next() {
        match option {
            b"-c" | b"--cid" => is_of_container = arguments.next() == Some(id.as_bytes()),
            b"-n" | b"--name" => {
                let name = str::from_utf8(arguments.next()?).ok()?;
                return SchedulerLabels::value(name).filter(|_| is_of_container);
            }
            _ => {}
        }
    }
    None
}

/// One container in `containers.json` or `volatile-containers.json`. Neither file contains the
/// environment.
///
/// Source: containers/storage, `Container` in `containers.go`; Podman,
/// `RuntimeContainerMetadata` in `libpod/storage.go`, which is JSON in a text.
#[derive(Debug, Deserialize)]
struct Stored {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    metadata: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(rename = "image-name", default)]
    image: Option<String>,
}

/// The containers in a list of the storage, by id.
///
/// # Errors
/// If the file is not a list of containers.
pub fn parse_storage(
    file: &[u8],
) -> Result<HashMap<String, ContainerDescription>, serde_json::Error> {
    let containers: Vec<Stored> = serde_json::from_slice(file)?;
    let described = containers
        .into_iter()
        .filter(|one| is_container_id(&one.id));
    Ok(described
        .map(|one| (one.id.clone(), describe(&one)))
        .collect())
}

fn describe(container: &Stored) -> ContainerDescription {
    let metadata = container.metadata.as_deref();
    let metadata: Option<Metadata> = metadata.and_then(|text| serde_json::from_str(text).ok());
    let image = metadata.and_then(|metadata| metadata.image);
    ContainerDescription {
        name: container
            .names
            .iter()
            .flatten()
            .find_map(|name| SchedulerLabels::value(name)),
        image: image.as_deref().and_then(SchedulerLabels::value),
        ..ContainerDescription::reported_by(Runtime::Podman)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "ab2a67ba7496a32bee534a9a9a3d61c2ac001ac0fa13313e350bd292e8a3d053";

    /// The arguments of conmon from Podman 4.3.1, without some paths.
    #[test]
    fn the_monitor_names_its_container_and_no_other() {
        let check = |line: &str, expect: Option<&str>| {
            let raw = line.replace(' ', "\0") + "\0";
            let got = name_in_monitor(raw.as_bytes(), ID);
            assert_eq!(got.as_deref(), expect, "{line}");
        };
        let usual = format!(
            "/usr/bin/conmon --api-version 1 -c {ID} -u {ID} -r /usr/bin/runc -b /b -p /p -n align \
             --exit-dir /run/libpod/exits --full-attach -l k8s-file:/l --log-tag x --exit-command \
             /usr/bin/podman --exit-command-arg -n --exit-command-arg other"
        );
        check(&usual, Some("align"));
        check(&usual.replace(&format!("-c {ID}"), "-c 7"), None);
        check(&format!("conmon --cid {ID} --name x"), Some("x"));
        check(&format!("conmon -n x -c {ID}"), None);
        check(&format!("conmon -c {ID} -n"), None);
        check(&format!("conmon -c {ID} -n a\u{1b}b"), None);
        check("conmon", None);
        check("", None);
    }

    /// The file of Podman 4.3.1.
    #[test]
    fn the_storage_contains_name_and_image() {
        let file = format!(
            r#"[{{"id":"{ID}","names":["align"],"image":"7ca8","layer":"6ea7","metadata":
            "{{\"image-name\":\"localhost/bwa:0.7.17\",\"image-id\":\"7ca8\",\"name\":\"align\",
            \"created-at\":1795472501}}","created":"2026-11-23T22:21:41.661636412Z",
            "flags":{{"MountLabel":"","ProcessLabel":""}}}}]"#
        )
        .replace("\n            ", "");
        let all = parse_storage(file.as_bytes()).expect("a list");
        assert_eq!(all[ID].name.as_deref(), Some("align"));
        assert_eq!(all[ID].image.as_deref(), Some("localhost/bwa:0.7.17"));
        let damaged = format!(r#"[{{"id":"{ID}","metadata":"{{"}},{{"id":"x"}}]"#);
        let all = parse_storage(damaged.as_bytes()).expect("a list");
        assert_eq!(all.len(), 1);
        assert_eq!((&all[ID].name, &all[ID].image), (&None, &None));
        assert!(parse_storage(b"{}").is_err());
    }
}
