//! Chooses the items of a limited list in turns of the nodes that reported them. A node with many items then
//! hides no item of another node.

use std::collections::BTreeMap;

use ebb_telemetry::identity::NodeId;

/// The first `max` of these items, in which the items of each node take turns of `turn` items. Items of
/// several nodes have no node here and come in the first turn. Within a turn, the order stays.
pub fn first_in_turns<T>(
    items: impl IntoIterator<Item = (Option<NodeId>, T)>,
    turn: usize,
    max: usize,
) -> Vec<(Option<NodeId>, T)> {
    let mut of_node: BTreeMap<NodeId, usize> = BTreeMap::new();
    let items = items.into_iter().map(|(node, item)| {
        let before = node.as_ref().map_or(0, |node| match of_node.get_mut(node) {
            Some(before) => {
                *before += 1;
                *before
            }
            None => *of_node.entry(node.clone()).or_default(),
        });
        (before / turn, (node, item))
    });
    let mut items: Vec<_> = items.collect();
    items.sort_by_key(|(turns, _)| *turns);
    items.truncate(max);
    items.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_telemetry::testing::node;

    #[test]
    fn a_node_with_many_items_leaves_room_for_those_of_others() {
        let many = (0..100).map(|n| (Some(node(1)), n));
        let few = [(Some(node(2)), 100), (None, 101), (Some(node(2)), 102)];
        let all = || many.clone().chain(few.clone());
        let chosen = |turn, max| -> Vec<i32> {
            let chosen = first_in_turns(all(), turn, max);
            chosen.into_iter().map(|(_, item)| item).collect()
        };
        assert_eq!(chosen(1, 5), [0, 100, 101, 1, 102]);
        assert_eq!(chosen(3, 6), [0, 1, 2, 100, 101, 102]);
        assert_eq!(chosen(1_000, 3), [0, 1, 2]);
        assert_eq!(chosen(1, 1_000).len(), 103);
    }
}
