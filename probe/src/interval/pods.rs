//! Names pods as the kubelet does.

use std::collections::HashMap;

use ebb_telemetry::step::StepKind;

use crate::attribute::pod::LogFolder;
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::steps::RunningStep;

/// Number of scans that look for the name of a pod. The kubelet creates the directory before it
/// starts the pod, so a later search would not find it either.
const NAME_SCANS: u32 = 3;

impl IntervalAggregator {
    /// Names new pods from their log directories. `list` returns the directory names and is called
    /// only if there is a pod without a name. A pod without a directory keeps its uid.
    pub fn name_pods(&mut self, list: impl FnOnce() -> Vec<String>) {
        let awaits = |step: &RunningStep| {
            let id = &step.step.id;
            id.kind == StepKind::Pod && step.step.name == id.key && step.windows < NAME_SCANS
        };
        if !self.steps.iter_mut().any(|step| awaits(step)) {
            return;
        }
        let names = list();
        let folders = names.iter().filter_map(|name| LogFolder::parse(name));
        let by_uid: HashMap<&str, LogFolder<'_>> = folders.map(|one| (one.uid, one)).collect();
        for step in self.steps.iter_mut().filter(|step| awaits(step)) {
            let Some(folder) = by_uid.get(step.step.id.key.as_str()) else {
                continue;
            };
            let chosen = folder.chosen();
            if self.rules.show(folder.pod) && self.rules.show(&chosen) {
                step.step.name = format!("{}/{chosen}", folder.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ebb_telemetry::time::BootClock;

    use super::*;
    use crate::cgroup::Paths;
    use crate::cgroup::reading::Reading;
    use crate::kernel::{CgroupId, Comm, Process, ProcessEvent, ProcessKey, Samples, Start};
    use crate::label_rules::Rules;

    const UID: &str = "7f1c2d3e-0000-4abc-8def-0123456789ab";

    fn at(seconds: u64) -> BootClock {
        BootClock::from_nanos(seconds * 1_000_000_000)
    }

    /// The name of a new pod after `scans` scans without a directory and one with `folder`.
    fn named(mask: &str, scans: u64, folder: &str) -> String {
        let rules = Rules::parse(mask).expect("valid");
        let rules = rules.before(Rules::built_in());
        let mut paths = Paths::default();
        paths.learn(CgroupId(9), format!("/kubepods/burstable/pod{UID}/c"));
        let period = Duration::from_secs(10);
        let mut aggregator =
            IntervalAggregator::begin(rules, paths, period, at(1), &[], |_| Start::default());
        aggregator.event(ProcessEvent::Forked(Process {
            key: ProcessKey {
                pid: 7,
                start: at(2),
            },
            parent: 1,
            cgroup: Some(CgroupId(9)),
            comm: Comm::new("bwa"),
        }));
        for n in 0..scans {
            aggregator.name_pods(Vec::new);
            aggregator.scan(
                at(10 + n),
                None,
                &Samples::living(Vec::new(), Vec::new()),
                |_, _| Reading::default(),
            );
        }
        aggregator.name_pods(|| vec!["lost+found".into(), folder.into()]);
        let step = aggregator.steps.iter_mut().next().expect("a step");
        step.step.name.clone()
    }

    #[test]
    fn a_pod_goes_by_its_folder_s_name_and_without_one_by_its_uid() {
        let folder = format!("lab_align-x7k2p_{UID}");
        let check = |mask: &str, scans: u64, folder: &str, expect: &str| {
            assert_eq!(named(mask, scans, folder), expect, "{mask} {folder}");
        };
        check("", 0, &folder, "lab/align");
        check("", 1, &folder, "lab/align");
        check("", 0, "lab_align-x7k2p_7f1c2d3e", UID);
        check("", 0, "0.log", UID);
        check("mask = ['align*']", 0, &folder, UID);
        check("mask = ['*-x7k2p']", 0, &folder, UID);
        check("mask = ['secret*']", 0, &folder, "lab/align");
    }
}
