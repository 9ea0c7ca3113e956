//! Labels that a scheduler sends for a task.

use ebb_telemetry::step::SchedulerLabels;

use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::{ProcessOwner, Stage};
use crate::label::{MAX_BYTES_IN_ALL, Refusal, Requester, bytes_of, merge};

impl IntervalAggregator {
    /// Adds the labels that a process sent for its task.
    ///
    /// # Errors
    /// Refused if the process is in no task, or a limit is reached; `Unknown` if a later scan may
    /// still find the process.
    pub fn label(&mut self, requester: Requester, labels: &SchedulerLabels) -> Result<(), Refusal> {
        let entry = self.processes.get(requester.pid());
        let entry = entry.filter(|entry| entry.stage != Stage::Ended && requester.is(entry.key));
        let ProcessOwner::Step(number) = entry.ok_or(Refusal::Unknown)?.owner else {
            return Err(Refusal::NoStep);
        };
        let others = self.steps.label_bytes(number);
        let step = self.steps.get_mut(number).ok_or(Refusal::NoStep)?;
        let held = step.scheduler_labels.take().unwrap_or_default();
        let both = merge(&held, labels).and_then(|both| {
            match others + bytes_of(&both) > MAX_BYTES_IN_ALL {
                true => Err(Refusal::NoRoom),
                false => Ok(both),
            }
        });
        let (kept, said) = match both {
            Ok(both) => (both, Ok(())),
            Err(refusal) => (*held, Err(refusal)),
        };
        step.scheduler_labels = (kept != SchedulerLabels::default()).then(|| Box::new(kept));
        said
    }
}
