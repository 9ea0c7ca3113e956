//! Names of containers: which ones a person gave, and the name of an image. Pure.

use std::collections::BTreeSet;

use ebb_telemetry::identity::{NodeId, is_uuid};
use ebb_telemetry::step::container_labels::{CONTAINER_IMAGE, NEXTFLOW_HASH};
use ebb_telemetry::step::{PlacedStep, StepKind};

use crate::step_history::nextflow_task::hash_in_pod;

/// The first words of the names that Docker and Podman generate, such as `hopeful` in
/// `hopeful_bose`.
///
/// Source: `left` in `pkg/namesgenerator/names-generator.go` of Docker 20.10.24; Podman copies it.
const FIRST_WORDS: &str = include_str!("generated_names/first.txt");

/// The second words of these names, such as `bose`.
///
/// Source: `right` in the same file.
const SECOND_WORDS: &str = include_str!("generated_names/second.txt");

/// Whether a runtime or an engine generated the name of a container, so that each task has another
/// one.
pub(crate) fn is_generated(name: &str) -> bool {
    is_random_words(name) || is_nextflow(name) || has_uuid(name)
}

/// `hopeful_bose`, or `hopeful_bose7` if the first one exists.
///
/// Source: `GetRandomName` in the file of [`FIRST_WORDS`].
fn is_random_words(name: &str) -> bool {
    let has = |words: &str, wanted: &str| words.split_ascii_whitespace().any(|word| word == wanted);
    name.split_once('_').is_some_and(|(first, second)| {
        let second = second
            .strip_suffix(|c: char| c.is_ascii_digit())
            .unwrap_or(second);
        has(FIRST_WORDS, first) && has(SECOND_WORDS, second)
    })
}

/// `nxf-` and 24 random letters and digits.
///
/// Source: `DockerBuilder` and `BashWrapperBuilder` of Nextflow, for Docker and Podman.
fn is_nextflow(name: &str) -> bool {
    let random = name.strip_prefix("nxf-");
    random.is_some_and(|random| {
        random.len() == 24 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether any part of a name is a UUID.
fn has_uuid(name: &str) -> bool {
    const UUID_BYTES: usize = 36;
    let parts = name.as_bytes().windows(UUID_BYTES);
    parts
        .filter_map(|part| str::from_utf8(part).ok())
        .any(is_uuid)
}

/// Whether the name of a pod, with or without its namespace, only numbers it: a pod of Nextflow, of
/// Snakemake or of AWS Batch.
pub(crate) fn is_numbered_pod(name: &str) -> bool {
    hash_in_pod(name).is_some() || has_uuid(name)
}

/// The name of the image of a container: its last part, without tag and digest. `None` if there is
/// no image, or if the name is only a number.
pub(crate) fn image_name(task: &PlacedStep) -> Option<&str> {
    let image = task.usage.label(CONTAINER_IMAGE)?;
    let (image, _) = image.split_once('@').unwrap_or((image, ""));
    let last = image.rsplit('/').next()?;
    let (name, _) = last.split_once(':').unwrap_or((last, ""));
    let is_hex = |text: &str| text.len() >= 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
    // BioContainers names an image with several packages by a hash.
    let hash = name.strip_prefix("mulled-v2-").unwrap_or(name);
    (!name.is_empty() && name != "sha256" && !is_hex(hash)).then_some(name)
}

/// The containers that run tasks of Nextflow. Outside of the container, the task only starts the
/// client of the container runtime.
#[derive(Debug, Default)]
pub(crate) struct NextflowContainers<'a> {
    hashes: BTreeSet<(&'a NodeId, &'a str)>,
}

impl<'a> NextflowContainers<'a> {
    pub(crate) fn from_tasks(tasks: impl Iterator<Item = &'a PlacedStep>) -> Self {
        let containers = tasks.filter(|task| task.usage.id.kind == StepKind::Container);
        let hashes =
            containers.filter_map(|task| Some((&task.node, task.usage.label(NEXTFLOW_HASH)?)));
        Self {
            hashes: hashes.collect(),
        }
    }

    /// Whether a task of Nextflow does its work in a container, which is a task of its own.
    pub(crate) fn has_work_of(&self, task: &PlacedStep) -> bool {
        task.usage.id.kind == StepKind::NextflowTask
            && self
                .hashes
                .contains(&(&task.node, task.usage.id.key.as_str()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ebb_telemetry::step::SchedulerLabels;
    use ebb_telemetry::testing::placed_step;

    use super::*;

    /// A container with labels.
    pub(crate) fn container(name: &str, labels: &[(&str, &str)]) -> PlacedStep {
        let mut task = placed_step(1, 0);
        task.usage.id.kind = StepKind::Container;
        task.usage.id.key = "0123456789abcdef".repeat(4);
        task.usage.name = name.to_owned();
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        task.usage.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
            trace_id: None,
            labels: labels.collect(),
        }));
        task
    }

    #[test]
    fn only_generated_names_are_generated() {
        let check = |name: &str, expect: bool| assert_eq!(is_generated(name), expect, "{name}");
        check("hopeful_bose", true);
        check("hopeful_bose3", true);
        check("admiring_albattani", true);
        check("zen_zhukovsky", true);
        check("nxf-a1B2c3D4e5F6a1B2c3D4e5F6", true);
        check("job-5f3c2a10-0001-4d2e-9b6a-3e1f00000017", true);
        // People write these.
        check("hopeful_align", false);
        check("sort_bose", false);
        check("align_reads", false);
        check("bose", false);
        check("hopeful_bose33", false);
        check("nxf-align", false);
        check("lab-align-1", false);
        check("", false);
    }

    #[test]
    fn an_image_has_the_last_part_of_its_name() {
        let check = |image: &str, expect: Option<&str>| {
            let task = container("x", &[("container.image", image)]);
            assert_eq!(image_name(&task), expect, "{image}");
        };
        check("bwa", Some("bwa"));
        check("localhost:5000/lab/bwa", Some("bwa"));
        check("quay.io/biocontainers/bwa:0.7.17--h1", Some("bwa"));
        check("lab/bwa:1@sha256:0123", Some("bwa"));
        check("sha256:0123456789abcdef", None);
        check("7ca8bd8973d6", None);
        check(
            "quay.io/biocontainers/mulled-v2-fe8faa35dbf6dc65a0f7f5d4ea12e31a79f73e40:1",
            None,
        );
        check("quay.io/", None);
        assert_eq!(image_name(&container("x", &[])), None);
    }

    #[test]
    fn a_pod_of_nextflow_or_with_a_uuid_has_only_a_number() {
        let check = |name: &str, expect: bool| assert_eq!(is_numbered_pod(name), expect, "{name}");
        let hash = "abcdef0123456789abcdef0123456789";
        check(&format!("lab/nf-{hash}-x7k2p"), true);
        check(&format!("nf-{hash}"), true);
        check("lab/nf-align", false);
        check("lab/aws-batch.7f1c2d3e-0000-4abc-8def-0123456789ab", true);
        check("lab/align", false);
    }
}
