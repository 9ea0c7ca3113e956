//! Names and images of containers, from the programs that run containers. [`docker`], [`podman`]
//! and [`ecs`] parse what these programs report; they are pure. [`lookup`] asks them. No module
//! here reads the environment of a container: never `config.v2.json`, the `config.json` of a
//! bundle, or `inspect`.

pub mod docker;
pub mod ecs;
mod http;
pub mod lookup;
pub mod podman;

use std::collections::BTreeMap;

use ebb_telemetry::step::container_labels::{
    COMPOSE_SERVICE, CONTAINER_IMAGE, CONTAINER_NAME, CONTAINER_SOURCE, ECS_FAMILY, NEXTFLOW_HASH,
};
use ebb_telemetry::step::{SchedulerLabels, StepId};

use crate::kernel::ProcessKey;

/// The label with the process of Nextflow, which Ebb recommends in `process.containerOptions`. It
/// is sent as `step`.
const PROCESS_LABEL: &str = "nf.process";

/// The labels of a container that are sent with their own keys. All others stay on the node.
const SENT_LABELS: [&str; 3] = [
    "com.docker.compose.project",
    COMPOSE_SERVICE,
    "miniwdl_run_id",
];

/// The program that named a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// The daemon of Docker.
    Docker,
    /// Podman: the arguments of `conmon`, or the list of containers in its storage.
    Podman,
    /// The agent of Amazon ECS.
    Ecs,
}

impl Runtime {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Ecs => "ecs",
        }
    }
}

/// A running task that is a container and has no name yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnnamedContainer {
    /// The identity of the task: a container, or a task of Amazon ECS.
    pub id: StepId,
    /// The path of its cgroup.
    pub cgroup: String,
    /// Some of its live processes.
    pub processes: Vec<ProcessKey>,
}

/// The name and image of one container, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerDescription {
    /// The program that reported the container; `None` if only its hash is known.
    pub runtime: Option<Runtime>,
    /// The name of the container, or the family of the task of Amazon ECS.
    pub name: Option<String>,
    /// The image, as the container was started with it.
    pub image: Option<String>,
    /// The hash of the Nextflow task that it runs.
    pub nextflow_hash: Option<String>,
    /// The labels that are sent with their own keys, and `step`.
    pub labels: BTreeMap<String, String>,
}

impl ContainerDescription {
    /// A container that `runtime` reported.
    pub fn reported_by(runtime: Runtime) -> Self {
        Self {
            runtime: Some(runtime),
            ..Self::default()
        }
    }

    /// Adds what another source knows. A value that is known stays.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let mut labels = other.labels;
        labels.extend(self.labels);
        Self {
            runtime: self.runtime.or(other.runtime),
            name: self.name.or(other.name),
            image: self.image.or(other.image),
            nextflow_hash: self.nextflow_hash.or(other.nextflow_hash),
            labels,
        }
    }

    /// The name of the task: the service of Docker Compose, otherwise the name of the container.
    pub fn task_name(&self) -> Option<&str> {
        let service = self.labels.get(COMPOSE_SERVICE).or(self.name.as_ref());
        service.map(String::as_str)
    }

    /// The labels of the task. `shown` returns a name as it may leave the node.
    pub fn scheduler_labels(&self, shown: impl Fn(&str) -> String) -> SchedulerLabels {
        let own = self.labels.iter().map(|(key, value)| (key.as_str(), value));
        let name_key = match self.runtime {
            Some(Runtime::Ecs) => ECS_FAMILY,
            _ => CONTAINER_NAME,
        };
        let named = [(name_key, &self.name), (CONTAINER_IMAGE, &self.image)];
        let named = named
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let mut labels: BTreeMap<String, String> = named
            .chain(own)
            .map(|(key, value)| (key.to_owned(), shown(value)))
            .collect();
        let source = self.runtime.map(|runtime| runtime.as_str().to_owned());
        labels.extend(source.map(|source| (CONTAINER_SOURCE.to_owned(), source)));
        let hash = self.nextflow_hash.clone();
        labels.extend(hash.map(|hash| (NEXTFLOW_HASH.to_owned(), hash)));
        SchedulerLabels {
            trace_id: None,
            labels,
        }
    }
}

/// The description of the container that is a task.
#[derive(Debug)]
pub(crate) struct NamedContainer {
    pub(crate) description: ContainerDescription,
    /// The labels of the task; `None` if there was no room for them.
    pub(crate) labels: Option<SchedulerLabels>,
}

/// The labels that are sent, from all labels of a container.
fn sent_labels(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = SENT_LABELS.iter().map(|key| (*key, *key));
    let all = own
        .chain([(PROCESS_LABEL, "step")])
        .filter_map(|(from, to)| Some((to.to_owned(), SchedulerLabels::value(all.get(from)?)?)));
    all.collect()
}

/// Whether a text is the id of a container: 64 digits.
fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_contain_name_image_and_source_and_hide_masked_names() {
        let labels = [("nf.process", "RNA:ALIGN"), ("password", "hunter2")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let container = ContainerDescription {
            name: Some("secret".to_owned()),
            image: Some("quay.io/bwa:0.7".to_owned()),
            nextflow_hash: Some("ab/cdef".to_owned()),
            labels: sent_labels(&labels.into()),
            ..ContainerDescription::reported_by(Runtime::Docker)
        };
        let hide = |name: &str| if name == "secret" { "***" } else { name }.to_owned();
        let got = container.scheduler_labels(hide).labels;
        let got: Vec<_> = got.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let expect = [
            "container.image=quay.io/bwa:0.7",
            "container.name=***",
            "container.source=docker",
            "nextflow.hash=ab/cdef",
            "step=RNA:ALIGN",
        ];
        assert_eq!(got, expect);
    }

    #[test]
    fn a_value_that_is_known_stays() {
        let of = |runtime, name: Option<&str>, image: Option<&str>| ContainerDescription {
            name: name.map(str::to_owned),
            image: image.map(str::to_owned),
            ..ContainerDescription::reported_by(runtime)
        };
        let both =
            of(Runtime::Podman, Some("a"), None).or(of(Runtime::Docker, Some("b"), Some("c")));
        assert_eq!(both, of(Runtime::Podman, Some("a"), Some("c")));
        let mut composed = of(Runtime::Docker, Some("lab-align-1"), None);
        assert_eq!(composed.task_name(), Some("lab-align-1"));
        composed.labels = [(COMPOSE_SERVICE.to_owned(), "align".to_owned())].into();
        assert_eq!(composed.task_name(), Some("align"));
    }
}
