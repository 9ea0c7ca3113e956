//! The cost of a machine, divided among the tasks on it. The method is that of AWS split cost
//! allocation data for ECS and EKS, hour by hour.
//!
//! Source: AWS Data Exports User Guide, "Understanding split cost allocation data" and its example:
//! one vCPU weighs as much as 9 GB of memory, from the prices of Fargate; a GPU weighs as much as
//! 10 vCPUs ("accelerated instances"); a task occupies the greater of its reservation and its use
//! of each; the unused part of each is assigned to the tasks in proportion to what they occupy.

#[cfg(test)]
mod tests;

use ebb_model::policy::costs::AllocationMethod;
use ebb_telemetry::money::Usd;
use ebb_telemetry::step::Requested;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;

use crate::cost_allocation::apportion::apportion;
use crate::coverage::overlap;

/// The weight of a thousandth of a core and of a KiB, in the ratio of 9 GiB to one core.
const WEIGHT_OF_MILLI_CORE: u128 = 9 * 1024 * 1024 / 8;
const WEIGHT_OF_KIB: u128 = 1000 / 8;

/// The weight of a GPU is that of ten cores.
const WEIGHT_OF_GPU: u128 = 10 * 1000 * WEIGHT_OF_MILLI_CORE;

const HOUR_SECONDS: i64 = 3_600;

/// No machine has more. With these limits, each product of two weights of an hour is below 2^128.
const LARGEST: Capacity = Capacity {
    cores: MilliCores(2_000_000),
    memory: Bytes(32 << 40),
    gpus: 128,
};

/// Resources of a machine, or those that a task occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Cores.
    pub cores: MilliCores,
    /// Memory.
    pub memory: Bytes,
    /// GPUs.
    pub gpus: u32,
}

/// The part of a machine that a task occupies, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// From its start to its end, or to the last observation.
    pub window: Window,
    /// The resources.
    pub occupied: Capacity,
}

/// The cost of a machine that one task occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskShare {
    /// The part that it occupies; `SplitCost` in the bill of AWS.
    pub used: Usd,
    /// Its part of what no task occupies in the hours in which it runs; `UnusedCost` in the bill of
    /// AWS.
    pub unused: Usd,
}

/// The cost of a machine by task. All parts add up to the cost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineSplit {
    /// In the order of the claims.
    pub tasks: Vec<TaskShare>,
    /// The cost of the hours in which no task ran.
    pub without_tasks: Usd,
}

/// The part of a machine that a task with `gpus` GPUs occupies by `method`. An amount of which neither the request nor the use is known
/// counts as much of the machine as the other amount. A task of which nothing is known occupies the
/// whole machine.
pub fn occupied(
    method: AllocationMethod,
    reserved: Requested,
    used: Requested,
    gpus: u32,
    machine: Capacity,
) -> Capacity {
    let cores = chosen(method, reserved.cores, used.cores);
    let memory = chosen(method, reserved.memory, used.memory);
    let part = |amount: u64, of: u64, whole: u64| {
        let part = u128::from(amount.min(of)) * u128::from(whole) / u128::from(of.max(1));
        u64::try_from(part).unwrap_or(whole)
    };
    let (all_cores, all_memory) = (machine.cores.0, machine.memory.0);
    let (cores, memory) = match (cores, memory) {
        (Some(cores), Some(memory)) => (cores, memory),
        (Some(cores), None) => (cores, Bytes(part(cores.0, all_cores, all_memory))),
        (None, Some(memory)) => (MilliCores(part(memory.0, all_memory, all_cores)), memory),
        (None, None) => return machine,
    };
    Capacity {
        cores,
        memory,
        gpus,
    }
}

fn chosen<T: Ord>(method: AllocationMethod, reserved: Option<T>, used: Option<T>) -> Option<T> {
    match method {
        AllocationMethod::Greater => reserved.max(used),
        AllocationMethod::Reserved => reserved.or(used),
        AllocationMethod::Used => used.or(reserved),
    }
}

/// Divides the cost of a machine in `spans` among its tasks. The price is the same in each moment of
/// the spans, which do not overlap. Tasks that together occupy more than the machine has are reduced
/// in proportion.
pub fn split_machine(
    cost: Usd,
    machine: Capacity,
    spans: &[Window],
    claims: &[Claim],
) -> MachineSplit {
    let mut weights = vec![0_u128; 2 * claims.len() + 1];
    let machine = bounded(machine, LARGEST);
    let mut whole = 0;
    for hour in spans.iter().flat_map(|span| hours(*span)) {
        let time = millis(hour, hour);
        let of_tasks: Vec<(usize, [u128; 3])> = claims
            .iter()
            .enumerate()
            .map(|(at, claim)| (at, millis(hour, claim.window), claim))
            .filter(|(_, time, _)| *time > 0)
            .map(|(at, time, claim)| (at, weigh(bounded(claim.occupied, machine), time)))
            .collect();
        for (resource, available) in weigh(machine, time).into_iter().enumerate() {
            whole += available;
            let of_tasks = of_tasks
                .iter()
                .map(|(at, weights)| (*at, weights[resource]));
            add_shares(available, of_tasks, &mut weights);
        }
    }
    let assigned: u128 = weights.iter().sum();
    let last = weights.len() - 1;
    weights[last] = whole - assigned;
    let Some(parts) = apportion(cost, &weights) else {
        return MachineSplit {
            tasks: vec![TaskShare::default(); claims.len()],
            without_tasks: cost,
        };
    };
    let shares = parts[..last].chunks_exact(2);
    MachineSplit {
        tasks: shares
            .map(|pair| TaskShare {
                used: pair[0],
                unused: pair[1],
            })
            .collect(),
        without_tasks: parts[last],
    }
}

/// Adds what each task occupies of one resource in an hour, and its part of what no task occupies.
fn add_shares(
    available: u128,
    of_tasks: impl Iterator<Item = (usize, u128)> + Clone,
    weights: &mut [u128],
) {
    let all: u128 = of_tasks.clone().map(|(_, amount)| amount).sum();
    if all == 0 {
        return;
    }
    let free = available.saturating_sub(all);
    for (at, amount) in of_tasks {
        weights[2 * at] += match all > available {
            true => amount * available / all,
            false => amount,
        };
        weights[2 * at + 1] += free * amount / all;
    }
}

/// The weights of cores, memory and GPUs over a time in milliseconds.
fn weigh(capacity: Capacity, time: u128) -> [u128; 3] {
    let cores = u128::from(capacity.cores.0) * WEIGHT_OF_MILLI_CORE;
    let memory = u128::from(capacity.memory.0 / 1024) * WEIGHT_OF_KIB;
    let gpus = u128::from(capacity.gpus) * WEIGHT_OF_GPU;
    [cores, memory, gpus].map(|weight| weight * time)
}

fn bounded(capacity: Capacity, by: Capacity) -> Capacity {
    Capacity {
        cores: capacity.cores.min(by.cores),
        memory: capacity.memory.min(by.memory),
        gpus: capacity.gpus.min(by.gpus),
    }
}

fn millis(a: Window, b: Window) -> u128 {
    overlap(a, b) / 1_000_000
}

/// The hours of a window; the first and the last may be shorter.
fn hours(span: Window) -> impl Iterator<Item = Window> {
    let first = span.from.as_second().div_euclid(HOUR_SECONDS);
    let at = |hour: i64| Timestamp::from_second(hour * HOUR_SECONDS).ok();
    (first..)
        .map_while(move |hour| {
            Some(Window {
                from: at(hour)?.max(span.from),
                to: at(hour + 1)?.min(span.to),
            })
        })
        .take_while(move |hour| hour.from < span.to)
}
