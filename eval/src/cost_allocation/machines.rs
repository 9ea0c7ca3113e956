//! The machines of a run. A trace contains the type and the zone of the machine of each task, but
//! not which machine it was. So tasks are placed on as few machines as have room for them.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_analysis::cost_allocation::machine_split::Capacity;
use ebb_catalog::catalog::Catalogue;
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, MilliCores};

use super::run_files::{BilledTask, MachineKey};

/// Time from the launch of a machine to its first task, and from its last task to its end. A machine
/// boots and joins its cluster in one to three minutes, and AWS Batch ends it after its last task.
const AROUND: Duration = Duration::from_secs(120);

/// A machine without a task for so long has ended.
const IDLE: Duration = Duration::from_secs(600);

/// A machine with its tasks, as indexes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedMachine {
    pub(super) key: MachineKey,
    pub(super) size: Capacity,
    pub(super) lived: Window,
    pub(super) tasks: Vec<usize>,
}

/// Size of a type; `None` if the catalogue does not contain it.
pub(super) fn size(machine_type: &InstanceType) -> Option<Capacity> {
    let spec = Catalogue::built_in().spec(machine_type)?;
    Some(Capacity {
        cores: MilliCores::cores(u64::from(spec.vcpus)),
        memory: spec.memory,
        gpus: spec.gpu_count(),
    })
}

/// Places the tasks in the order of their start on the first machine with room.
pub(super) fn place(tasks: &[BilledTask]) -> Vec<PlacedMachine> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|at| (tasks[*at].window.from, *at));
    let mut machines: Vec<PlacedMachine> = Vec::new();
    for at in order {
        let task = &tasks[at];
        let Some(size) = size(&task.machine.machine_type) else {
            continue;
        };
        match machines.iter_mut().find(|one| has_room(one, task, tasks)) {
            Some(machine) => {
                machine.lived.to = machine.lived.to.max(task.window.to);
                machine.tasks.push(at);
            }
            None => machines.push(PlacedMachine {
                key: task.machine.clone(),
                size,
                lived: task.window,
                tasks: vec![at],
            }),
        }
    }
    for machine in &mut machines {
        let Window { from, to } = machine.lived;
        machine.lived = Window {
            from: from.checked_sub(AROUND).unwrap_or(from),
            to: to.checked_add(AROUND).unwrap_or(to),
        };
    }
    machines
}

fn has_room(machine: &PlacedMachine, task: &BilledTask, tasks: &[BilledTask]) -> bool {
    let start = task.window.from;
    let ended = machine.lived.to.checked_add(IDLE);
    if machine.key != task.machine || ended.is_ok_and(|ended| ended < start) {
        return false;
    }
    let running = machine.tasks.iter().map(|at| &tasks[*at]);
    let running = running.filter(|other| other.window.to > start);
    let (mut cores, mut memory) = (0_u64, 0_u64);
    for one in running.chain([task]) {
        cores += one.reserved.cores.unwrap_or(MilliCores(0)).0;
        memory += one.reserved.memory.unwrap_or(Bytes(0)).0;
    }
    cores <= machine.size.cores.0 && memory <= machine.size.memory.0
}

/// The price of an hour of each kind of machine. The estimates of the engine are the price of the
/// machine times the greater share of cores and memory. Without estimates it is the list price;
/// `None` without both.
pub(super) fn prices(tasks: &[BilledTask]) -> BTreeMap<MachineKey, Option<UsdPerHour>> {
    let mut sums: BTreeMap<MachineKey, (f64, f64)> = BTreeMap::new();
    for task in tasks {
        let (usd, hours) = sums.entry(task.machine.clone()).or_default();
        if let Some((cost, share)) = task.estimated_usd.zip(share(task)) {
            *usd += cost;
            *hours += share * task.window.length().as_secs_f64() / 3600.0;
        }
    }
    let price = |(key, (usd, hours)): (MachineKey, (f64, f64))| {
        let estimated = Usd::from_f64(usd / hours).filter(|price| *price > Usd::ZERO);
        let price = estimated.map(UsdPerHour).or_else(|| list_price(&key));
        (key, price)
    };
    sums.into_iter().map(price).collect()
}

fn share(task: &BilledTask) -> Option<f64> {
    let size = size(&task.machine.machine_type)?;
    let cores = task.reserved.cores?.0 as f64 / size.cores.0 as f64;
    let memory = task.reserved.memory?.0 as f64 / size.memory.0 as f64;
    Some(cores.max(memory))
}

/// The on-demand price; `None` for Spot machines, whose price is lower by an unknown amount.
fn list_price(key: &MachineKey) -> Option<UsdPerHour> {
    if key.price_model == "spot" {
        return None;
    }
    let region = key.zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let region = Region::new(region).ok()?;
    Catalogue::built_in().on_demand(&region, &key.machine_type)
}
