//! The size of a node's state in memory and in storage after a whole day of heartbeats. The state
//! covers one day of a node's past.

use std::collections::BTreeMap;

use ebb_ingest::state_store::format::Stored;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::arrival::{Arrival, Placed};
use ebb_telemetry::shard::Shard;
use serde::{Deserialize, Serialize};

use crate::fortnight::HISTORIES;
use crate::{count, fleet, fortnight};

const NODES: u32 = 1_000;
const DAY_MINUTES: u64 = 24 * 60;
/// Nodes that are compressed together, as in a whole fleet. The median is over such groups.
const GROUP: usize = 100;

#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) nodes: u32,
    /// Median over the nodes, in bytes, with a share of the map's own memory.
    pub(crate) memory: u64,
    pub(crate) memory_max: u64,
    /// Median over groups of nodes, in bytes.
    pub(crate) stored: u64,
    /// Mean of the hours in bytes, compressed together.
    pub(crate) hours_stored: u64,
}

pub(crate) fn measure() -> State {
    let policy = fleet::policy();
    count::begin();
    let before = count::live();
    let mut stored = Stored::empty(&policy.activity);
    for number in 0..NODES {
        for minute in 1..=DAY_MINUTES {
            stored
                .fleet
                .fold_heartbeat(&placed(number, minute), &policy.activity);
        }
    }
    let packed = packed(&stored);
    let (memory, memory_max) = in_memory(stored.fleet, before);
    State {
        nodes: NODES,
        memory,
        memory_max,
        stored: packed,
        hours_stored: hours_packed(),
    }
}

fn hours_packed() -> u64 {
    let bucket = fortnight::bucket(HISTORIES);
    let packed = bucket.stored(&ebb_ingest::state_store::hourly_activity::key(Shard::ONLY));
    packed.map_or(0, |packed| packed.bytes.len() as u64) / u64::from(HISTORIES)
}

fn placed(number: u32, minute: u64) -> Placed {
    let (node, sent) = (fleet::node(number), fleet::sent(number, minute));
    let arrival = Arrival {
        attested: &node,
        at: fleet::at(minute),
        sent: &sent,
    };
    Placed::new(arrival, fleet::heartbeat(number, minute)).expect("it is well formed")
}

fn packed(stored: &Stored) -> u64 {
    let nodes: Vec<_> = stored.fleet.nodes.iter().collect();
    let sizes = nodes.chunks(GROUP).map(|group| {
        let mut part = Stored::empty(&stored.activity);
        let owned = group
            .iter()
            .map(|(id, node)| ((*id).clone(), (*node).clone()));
        part.fleet.nodes = owned.collect();
        part.pack().expect("it fits").0.len() / group.len()
    });
    median(sizes.map(|size| size as u64).collect())
}

/// The memory that each node frees when it is removed, and its share of the map's memory.
fn in_memory(fleet: FleetState, before: i64) -> (u64, u64) {
    let all = count::live() - before;
    let count = i64::from(NODES);
    let nodes: BTreeMap<_, _> = fleet.nodes;
    let mut own: Vec<i64> = Vec::with_capacity(nodes.len());
    for (id, node) in nodes {
        let before = count::live();
        drop((id, node));
        own.push(before - count::live());
    }
    let shared = (all - own.iter().sum::<i64>()) / count;
    let sizes: Vec<u64> = own
        .into_iter()
        .map(|own| u64::try_from(own + shared).unwrap_or(0))
        .collect();
    let max = sizes.iter().copied().max().unwrap_or(0);
    (median(sizes), max)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
