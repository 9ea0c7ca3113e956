//! Names containers as the programs that run them do.

use std::collections::HashMap;

use ebb_telemetry::step::{SchedulerLabels, StepId, StepKind};

use crate::container_names::{ContainerDescription, NamedContainer, UnnamedContainer};
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::{ProcessOwner, Stage, StepNumber};
use crate::interval::steps::RunningStep;
use crate::label::bytes_of;
use crate::label_rules::MASKED;

/// Number of scans that look for the name of a container. A runtime knows a container before it
/// starts, but its answer can take longer than a scan waits.
const NAME_SCANS: u32 = 4;

/// Maximum number of containers in one scan, so that a burst does not raise the cost of the probe.
const MAX_UNNAMED: usize = 128;

/// Maximum number of processes of a container that are read; its first process is enough.
const MAX_PROCESSES: usize = 4;

impl IntervalAggregator {
    /// The new containers that have no name yet.
    pub fn unnamed_containers(&mut self) -> Vec<UnnamedContainer> {
        let is_unnamed = |step: &&mut RunningStep| {
            let container = step.container.as_ref();
            let name = container.and_then(|container| container.description.name.as_ref());
            matches!(step.step.id.kind, StepKind::Container | StepKind::EcsTask)
                && step.windows < NAME_SCANS
                && name.is_none()
        };
        let unnamed = self.steps.iter_mut().filter(is_unnamed).take(MAX_UNNAMED);
        let mut unnamed: Vec<UnnamedContainer> = unnamed
            .map(|step| UnnamedContainer {
                id: step.step.id.clone(),
                cgroup: step.step.cgroup.clone().unwrap_or_default(),
                processes: Vec::new(),
            })
            .collect();
        if unnamed.is_empty() {
            return unnamed;
        }
        let numbers: HashMap<StepNumber, usize> = (unnamed.iter().enumerate())
            .filter_map(|(at, one)| Some((self.steps.number(&one.id)?, at)))
            .collect();
        let mut living: Vec<_> = self
            .processes
            .iter()
            .filter(|entry| entry.stage != Stage::Ended)
            .filter_map(|entry| match entry.owner {
                ProcessOwner::Step(number) => Some((entry.key, *numbers.get(&number)?)),
                ProcessOwner::Background(_) => None,
            })
            .collect();
        // The oldest first: these include the first process of the container.
        living.sort_unstable_by_key(|(key, _)| (key.start, key.pid));
        for (key, at) in living {
            let processes = &mut unnamed[at].processes;
            if processes.len() < MAX_PROCESSES {
                processes.push(key);
            }
        }
        unnamed
    }

    /// Adds names, images and labels of containers, by the key of the task.
    pub fn name_containers(&mut self, found: HashMap<String, ContainerDescription>) {
        for (key, description) in found {
            let kinds = [StepKind::Container, StepKind::EcsTask];
            let ids = kinds.map(|kind| StepId {
                kind,
                key: key.clone(),
            });
            let number = ids.iter().find_map(|id| self.steps.number(id));
            if let Some(number) = number {
                self.name_container(number, description);
            }
        }
    }

    fn name_container(&mut self, number: StepNumber, description: ContainerDescription) {
        let Some(step) = self.steps.get_mut(number) else {
            return;
        };
        let before = step.container.take().map(|before| before.description);
        let description = before.unwrap_or_default().or(description);
        if let Some(name) = description.task_name().filter(|name| self.rules.show(name)) {
            name.clone_into(&mut step.step.name);
        }
        let labels = description.scheduler_labels(|name| match self.shows(name) {
            true => name.to_owned(),
            false => MASKED.to_owned(),
        });
        let labels = self.fit_labels(number, labels);
        if let Some(step) = self.steps.get_mut(number) {
            step.container = Some(Box::new(NamedContainer {
                description,
                labels,
            }));
        }
    }

    /// Whether a name or an image may leave the node. A pattern can be for the whole image or for
    /// its last part.
    fn shows(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        let base = last.split([':', '@']).next().unwrap_or(last);
        [name, last, base].iter().all(|part| self.rules.show(part))
    }

    /// The labels as far as there is room, otherwise only `step`. `None` if there is no room for it
    /// either, which is counted.
    pub(crate) fn fit_labels(
        &mut self,
        number: StepNumber,
        mut labels: SchedulerLabels,
    ) -> Option<SchedulerLabels> {
        let room = self.steps.label_room(number);
        if bytes_of(&labels) > room {
            labels.labels.retain(|key, _| key == "step");
        }
        let fits = bytes_of(&labels) <= room;
        self.names_left_out = self.names_left_out.saturating_add(u64::from(!fits));
        fits.then_some(labels)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ebb_telemetry::time::BootClock;

    use super::*;
    use crate::cgroup::Paths;
    use crate::cgroup::reading::Reading;
    use crate::container_names::Runtime;
    use crate::kernel::{CgroupId, Comm, Process, ProcessEvent, ProcessKey, Samples, Start};
    use crate::label_rules::Rules;

    const ID: &str = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd";

    fn at(seconds: u64) -> BootClock {
        BootClock::from_nanos(seconds * 1_000_000_000)
    }

    fn with_container(rules: &str, ids: &[String]) -> IntervalAggregator {
        let rules = Rules::parse(rules)
            .expect("valid")
            .before(Rules::built_in());
        let mut paths = Paths::default();
        for (n, id) in (9..).zip(ids) {
            paths.learn(CgroupId(n), format!("/docker/{id}"));
        }
        let period = Duration::from_secs(10);
        let mut aggregator =
            IntervalAggregator::begin(rules, paths, period, at(1), &[], |_| Start::default());
        for (n, _) in (9..).zip(ids) {
            aggregator.event(ProcessEvent::Forked(Process {
                key: ProcessKey {
                    pid: u32::try_from(n).expect("small"),
                    start: at(2),
                },
                parent: 1,
                cgroup: Some(CgroupId(n)),
                comm: Comm::new("bwa"),
            }));
        }
        aggregator
    }

    fn described(name: &str, image: &str) -> ContainerDescription {
        ContainerDescription {
            name: Some(name.to_owned()),
            image: Some(image.to_owned()),
            ..ContainerDescription::reported_by(Runtime::Docker)
        }
    }

    #[test]
    fn a_container_has_the_name_of_its_runtime_unless_it_is_masked() {
        let check = |rules: &str, expect_name: &str, expect_labels: &[&str]| {
            let mut aggregator = with_container(rules, &[ID.to_owned()]);
            let unnamed = aggregator.unnamed_containers();
            assert_eq!(unnamed[0].processes.len(), 1, "{unnamed:?}");
            let found = [(ID.to_owned(), described("align", "quay.io/lab/bwa:0.7"))];
            aggregator.name_containers(found.into());
            assert_eq!(aggregator.unnamed_containers(), []);
            let running = aggregator.close(at(60), 0, None).running;
            assert_eq!(running[0].name, expect_name, "{rules}");
            let labels = running[0].detail.scheduler_labels.as_ref().expect("labels");
            let labels: Vec<_> = (labels.labels.iter())
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            assert_eq!(labels, expect_labels, "{rules}");
        };
        let (image, name) = (
            "container.image=quay.io/lab/bwa:0.7",
            "container.name=align",
        );
        let source = "container.source=docker";
        check("", "align", &[image, name, source]);
        let masked = "container.name=***";
        check("mask = ['ali*']", "aaaaaaaaaaaa", &[image, masked, source]);
        let masked = "container.image=***";
        check("mask = ['bwa']", "align", &[masked, name, source]);
    }

    #[test]
    fn a_container_without_a_name_is_looked_for_in_some_scans_only() {
        let mut aggregator = with_container("", &[ID.to_owned()]);
        let mut scans = 0;
        for n in 0..10 {
            scans += u32::from(!aggregator.unnamed_containers().is_empty());
            let samples = Samples::living(Vec::new(), Vec::new());
            // The process is not in the samples, so the container ends after some scans.
            aggregator.scan(at(10 + n), None, &samples, |_, _| Reading::default());
        }
        assert!((1..=NAME_SCANS).contains(&scans), "{scans}");
    }

    #[test]
    fn labels_of_all_containers_together_are_bounded() {
        let ids: Vec<String> = (0..200).map(|n| format!("{n:064x}")).collect();
        let mut aggregator = with_container("", &ids);
        let image = "x".repeat(128);
        let found = ids
            .iter()
            .map(|id| (id.clone(), described("align", &image)));
        aggregator.name_containers(found.collect());
        let running = aggregator.close(at(60), 0, None).running;
        let labels = running
            .iter()
            .filter_map(|step| step.detail.scheduler_labels.as_deref());
        let bytes: usize = labels.map(bytes_of).sum();
        assert!(bytes <= crate::label::MAX_BYTES_IN_ALL, "{bytes}");
        assert!(running.iter().all(|step| step.name == "align"));
    }
}
