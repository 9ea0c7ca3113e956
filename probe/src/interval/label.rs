//! Labels that a scheduler sends for a task.

use ebb_telemetry::step::Handed;

use crate::interval::aggregator::Fold;
use crate::interval::processes::{ProcessOwner, Stage};
use crate::label::{Asker, MAX_BYTES_IN_ALL, Refusal, bytes_of, merge};

impl Fold {
    /// Adds the labels that a process sent for its task.
    ///
    /// # Errors
    /// Refused if the process is in no task, or a limit is reached; `Unknown` if a later scan may
    /// still find the process.
    pub fn label(&mut self, asker: Asker, handed: &Handed) -> Result<(), Refusal> {
        let entry = self.processes.get(asker.pid());
        let entry = entry.filter(|entry| entry.stage != Stage::Ended && asker.is(entry.key));
        let ProcessOwner::Step(number) = entry.ok_or(Refusal::Unknown)?.place else {
            return Err(Refusal::NoStep);
        };
        let others = self.steps.label_bytes(number);
        let step = self.steps.get_mut(number).ok_or(Refusal::NoStep)?;
        let held = step.handed.take().unwrap_or_default();
        let both = merge(&held, handed).and_then(|both| {
            match others + bytes_of(&both) > MAX_BYTES_IN_ALL {
                true => Err(Refusal::NoRoom),
                false => Ok(both),
            }
        });
        let (kept, said) = match both {
            Ok(both) => (both, Ok(())),
            Err(refusal) => (*held, Err(refusal)),
        };
        step.handed = (kept != Handed::default()).then(|| Box::new(kept));
        said
    }
}
