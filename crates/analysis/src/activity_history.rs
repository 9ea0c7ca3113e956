//! The observed and active hours of a node, from its probe or its metrics. The rules about
//! recurring idle time read both in this form.

use std::borrow::Cow;

use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::inventory::instance::Instance;
use ebb_node_state::hourly_activity::NodeHours;
use ebb_node_state::node_state::NodeState;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::metric_activity::MetricActivity;

/// Observed activity of a node.
pub(crate) struct ActivityHistory<'a> {
    /// Hourly activity of the last 14 days.
    pub(crate) hours: Cow<'a, NodeHours>,
    /// End of the last activity; `None` if no activity was observed.
    pub(crate) active_until: Option<Timestamp>,
    /// End of the observation.
    pub(crate) seen_until: Timestamp,
    pub(crate) seen_by: SeenBy,
}

impl<'a> ActivityHistory<'a> {
    /// Reads the probe of an instance if it has one, otherwise its metrics; `None` without both.
    pub(crate) fn new(facts: &Facts<'a>, instance: &Instance) -> Option<Self> {
        let node = facts.state.nodes.get(&instance.id);
        match node.filter(|node| node.latest.is_some()) {
            Some(node) => Self::from_probe(facts, instance, node),
            None => {
                let series = facts.metrics.get(&instance.id)?;
                let activity = MetricActivity::new(facts, instance, series)?;
                Some(Self::from_metrics(&activity))
            }
        }
    }

    /// `None` before the first heartbeat.
    pub(crate) fn from_probe(
        facts: &Facts<'a>,
        instance: &Instance,
        node: &NodeState,
    ) -> Option<Self> {
        let hours = facts.hours.nodes.get(&instance.id);
        Some(Self {
            hours: hours.map_or_else(|| Cow::Owned(NodeHours::default()), Cow::Borrowed),
            active_until: node.active_until,
            seen_until: node.latest.as_ref()?.end,
            seen_by: SeenBy::Probe,
        })
    }

    pub(crate) fn from_metrics(activity: &MetricActivity) -> Self {
        Self {
            hours: Cow::Owned(activity.hours()),
            active_until: activity.worked_until(),
            seen_until: activity.span().to,
            seen_by: SeenBy::Metrics,
        }
    }
}
