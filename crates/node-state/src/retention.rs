//! Removal of nodes when a limit is reached.

use std::collections::BTreeMap;

use ebb_telemetry::identity::NodeId;

/// Removes the nodes with the oldest data until `max` are left, and returns their ids.
pub(crate) fn take_oldest<T, K: Ord>(
    nodes: &mut BTreeMap<NodeId, T>,
    max: usize,
    newest: impl Fn(&T) -> K,
) -> Vec<NodeId> {
    let mut order: Vec<_> = nodes.iter().map(|(id, node)| (newest(node), id)).collect();
    order.sort_unstable();
    let gone = order.len().saturating_sub(max);
    let gone: Vec<NodeId> = order[..gone].iter().map(|(_, id)| (*id).clone()).collect();
    for id in &gone {
        nodes.remove(id);
    }
    gone
}
