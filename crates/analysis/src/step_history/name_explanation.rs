//! Shows what each source names the step of a task, and which source decides.

use ebb_model::report::workflow_runs::StepNameSource;
use ebb_model::task_record::TaskRecord;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;
use serde::Serialize;

use crate::facts::Facts;
use crate::step_history::engine_record::Recorded;
use crate::step_history::step_name::{SOURCES, find_step_name};
use crate::step_history::with_names;

/// The names that all sources have for one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameExplanation {
    /// The node.
    pub node: NodeId,
    /// The id of the task on its node.
    pub task: String,
    /// When it began.
    pub from: Timestamp,
    /// When it was last observed.
    pub until: Timestamp,
    /// The name of its step.
    pub step: String,
    /// The source of that name.
    pub source: StepNameSource,
    /// Each source with the name that it has, the best source first.
    pub sources: Vec<SourceName>,
    /// Whether the records name different steps, so that they name none.
    pub records_disagree: bool,
    /// The records of the task.
    pub records: Vec<TaskRecord>,
}

/// The name from one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceName {
    /// The source.
    pub source: &'static str,
    /// The name; `None` if the source has none.
    pub step: Option<String>,
}

/// Explains the names of the tasks with an id, such as `7.batch`, or of all steps of the Slurm job
/// `7`. The newest task comes first, and at most `most` are returned.
pub fn explain_names(
    facts: &Facts<'_>,
    kept: &[PlacedStep],
    task: &str,
    most: usize,
) -> Vec<NameExplanation> {
    let is_wanted = |step: &PlacedStep| {
        let (key, name) = (step.usage.id.key.as_str(), step.usage.name.as_str());
        let of_job = key.strip_prefix(task);
        name == task || of_job.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    with_names(facts, kept, |tasks, context, index| {
        let mut wanted: Vec<_> = tasks.iter().filter(|one| is_wanted(one.step)).collect();
        wanted.sort_by_key(|one| (std::cmp::Reverse(one.step.observed_at), &one.step.usage.id));
        let wanted = wanted.into_iter().take(most);
        let explained = wanted.map(|one| {
            let name = find_step_name(one, context);
            let sources = SOURCES.iter().map(|(source, find)| SourceName {
                source,
                step: find(one, context).map(|name| name.text),
            });
            NameExplanation {
                node: one.step.node.clone(),
                task: one.step.usage.id.key.clone(),
                from: one.step.started_at,
                until: one.step.observed_at,
                step: name.text,
                source: name.source,
                sources: sources.collect(),
                records_disagree: one.recorded == Recorded::Disagreement,
                records: index
                    .of_task(one.step, one.job)
                    .into_iter()
                    .cloned()
                    .collect(),
            }
        });
        explained.collect()
    })
}

#[cfg(test)]
mod tests {
    use ebb_model::task_record::testing::slurm_record;
    use ebb_telemetry::step::StepKind;
    use ebb_telemetry::testing::placed_step;

    use super::*;
    use crate::testing::{World, instance};

    #[test]
    fn each_source_is_listed_and_the_best_one_decides() {
        let mut world = World::with([instance(1)]);
        world.records = vec![slurm_record("7", "align")];
        for (n, key) in [(0, "7.batch"), (1, "70.batch")] {
            let mut step = placed_step(1, n);
            step.usage.id.kind = StepKind::SlurmJob;
            step.usage.id.key = key.to_owned();
            step.usage.name = key.to_owned();
            world.finished.push(step);
        }
        let explain = |task: &str| explain_names(&world.facts(), &[], task, 9);
        let [by_job] = &explain("7")[..] else {
            panic!("one task: {:?}", explain("7"))
        };
        assert_eq!(explain("7.batch"), std::slice::from_ref(by_job));
        assert_eq!(
            (by_job.step.as_str(), by_job.source),
            ("align", StepNameSource::Record)
        );
        assert_eq!(by_job.records, world.records);
        let named = by_job.sources.iter().filter_map(|one| one.step.as_deref());
        assert_eq!(named.collect::<Vec<_>>().first(), Some(&"align"));
        assert_eq!(explain("8"), []);
        world.records.push(slurm_record("7", "sort"));
        let both = &explain_names(&world.facts(), &[], "7", 9)[0];
        assert!(both.records_disagree && both.source != StepNameSource::Record);
        let report = world.evaluate();
        let gap = report.gaps.iter().find(|gap| gap.scope == "task names");
        let gap = gap.expect("a gap");
        assert_eq!(
            gap.reason,
            "1 task with records of different steps, such as 7.batch; these records are not used"
        );
    }
}
