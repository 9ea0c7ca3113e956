//! The part of its machine that a task occupies, from its request and its observed use.

use ebb_model::inventory::instance::Instance;
use ebb_telemetry::step::Requested;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::cost_allocation::machine_split::{Capacity, Claim, occupied};
use crate::facts::Facts;
use crate::step_history::observed_task::ObservedTask;

/// A machine of unknown size. Each of its tasks occupies it as a whole.
const OF_UNKNOWN_SIZE: Capacity = Capacity {
    cores: MilliCores(1_000),
    memory: Bytes(9 << 30),
    gpus: 0,
};

/// The size of a machine, from its type or from its probe.
pub(crate) fn capacity(facts: &Facts<'_>, instance: &Instance) -> Capacity {
    known_capacity(facts, instance).unwrap_or(OF_UNKNOWN_SIZE)
}

fn known_capacity(facts: &Facts<'_>, instance: &Instance) -> Option<Capacity> {
    let by_type = facts.catalogue.spec(&instance.instance_type);
    let by_type = by_type.map(|spec| Capacity {
        cores: MilliCores::cores(u64::from(spec.vcpus)),
        memory: spec.memory,
        gpus: spec.gpu_count(),
    });
    by_type.or_else(|| {
        let size = facts.measured_size(&instance.id)?;
        Some(Capacity {
            cores: size.cores,
            memory: size.memory,
            gpus: size.gpus,
        })
    })
}

/// The part of its machine that a task occupies.
pub(crate) fn claim(facts: &Facts<'_>, task: &ObservedTask<'_>) -> Claim {
    let window = Window {
        from: task.step.started_at,
        to: task.step.observed_at,
    };
    let spec = facts.catalogue.spec(&task.instance.instance_type);
    // No probe observes which task uses an accelerator, so the task occupies the whole machine.
    let has_accelerators = spec.is_some_and(|spec| spec.accelerators.is_some());
    let occupied = match known_capacity(facts, task.instance) {
        Some(machine) if !has_accelerators => {
            let gpus = task.gpus(facts, machine.gpus);
            let method = facts.policy.costs.method;
            occupied(method, task.requested(), used(task), gpus, machine)
        }
        known => known.unwrap_or(OF_UNKNOWN_SIZE),
    };
    Claim { window, occupied }
}

/// The average number of busy cores, and the most memory at once.
fn used(task: &ObservedTask<'_>) -> Requested {
    let usage = &task.step.usage;
    // A bound contains the page cache or memory of the parent.
    let memory = usage
        .peak_memory
        .filter(|peak| !peak.source.is_upper_bound());
    Requested {
        cores: usage.cpu.cores_over(task.wall()),
        memory: memory.map(|peak| peak.bytes),
    }
}
