//! Metrics of several accounts: each account is queried for its own nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use ebb_model::inventory::batch::task::TaskFamily;
use ebb_model::metric_series::MetricSeries;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{AccountId, NodeId, Region};
use jiff::Timestamp;

use super::{Accounts, all_refused, gap};
use crate::ports::{CloudResult, MetricsSource, NodeMetrics};
use crate::turns::{ACCOUNTS_AT_ONCE, in_turns_of};

type MemberRequest<T> = (AccountId, Arc<dyn MetricsSource>, T);

impl Accounts {
    /// Groups nodes by the metrics source of their account.
    fn by_owner<N, T>(
        &self,
        nodes: impl Iterator<Item = N>,
        node: impl Fn(&N) -> &NodeId,
    ) -> Vec<MemberRequest<T>>
    where
        T: Default + Extend<N>,
    {
        let mut by_owner: BTreeMap<AccountId, T> = BTreeMap::new();
        let learnt = self.learnt();
        for item in nodes {
            if let Some(owner) = learnt.owner.get(node(&item)) {
                by_owner.entry(owner.clone()).or_default().extend([item]);
            }
        }
        let each = self.members.iter().filter_map(|member| {
            let source = member.metrics.clone()?;
            Some((member.id.clone(), source, by_owner.remove(&member.id)?))
        });
        each.collect()
    }

    /// Combines the answers, with a gap for each account that refused. If no account answered,
    /// returns the first refusal.
    async fn together<K, T, F>(&self, scope: &str, calls: Vec<F>) -> CloudResult<BTreeMap<K, T>>
    where
        K: Ord + Send + 'static,
        T: Send + 'static,
        F: Future<Output = (AccountId, CloudResult<BTreeMap<K, T>>)> + Send + 'static,
    {
        let (mut all, mut failed, mut answered) = (BTreeMap::new(), Vec::new(), false);
        for (account, answer) in in_turns_of(ACCOUNTS_AT_ONCE, calls).await {
            match answer {
                Ok(entries) => {
                    answered = true;
                    all.extend(entries);
                }
                Err(error) => failed.push((account, error)),
            }
        }
        if !failed.is_empty() && !answered {
            return Err(all_refused(failed));
        }
        let gaps = failed
            .iter()
            .map(|(account, error)| gap(account, scope, error));
        self.learnt().unheard.extend(gaps);
        Ok(all)
    }
}

#[async_trait]
impl MetricsSource for Accounts {
    async fn list_supplementary(
        &self,
        region: &Region,
        nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics> {
        let requests: Vec<MemberRequest<Vec<NodeId>>> =
            self.by_owner(nodes.iter().cloned(), |node| node);
        let calls = requests.into_iter().map(|(account, source, nodes)| {
            let region = region.clone();
            async move { (account, source.list_supplementary(&region, &nodes).await) }
        });
        let scope = format!("{region}: metrics of credits and of agents");
        self.together(&scope, calls.collect()).await
    }

    async fn utilization(
        &self,
        region: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
        let nodes = nodes
            .iter()
            .map(|(node, supplementary)| (node.clone(), supplementary.clone()));
        let requests: Vec<MemberRequest<NodeMetrics>> = self.by_owner(nodes, |(node, _)| node);
        let calls = requests.into_iter().map(|(account, source, nodes)| {
            let region = region.clone();
            async move {
                let answer = source.utilization(&region, &nodes, from, to).await;
                (account, answer)
            }
        });
        let scope = format!("{region}: metrics");
        self.together(&scope, calls.collect()).await
    }

    /// Each account is queried for its own clusters.
    async fn of_tasks(
        &self,
        region: &Region,
        families: &BTreeSet<TaskFamily>,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
        let requests = self.members.iter().filter_map(|member| {
            let mine = families.iter();
            let mine = mine.filter(|family| family.account().as_ref() == Some(&member.id));
            let mine: BTreeSet<TaskFamily> = mine.cloned().collect();
            let source = member.metrics.clone()?;
            (!mine.is_empty()).then(|| (member.id.clone(), source, mine))
        });
        let calls = requests.map(|(account, source, mine)| {
            let region = region.clone();
            async move {
                let answer = source.of_tasks(&region, &mine, from, to).await;
                (account, answer)
            }
        });
        let scope = format!("{region}: metrics of tasks");
        self.together(&scope, calls.collect()).await
    }

    fn take_gaps(&self) -> Vec<Gap> {
        std::mem::take(&mut self.learnt().unheard)
    }

    fn least_pages(&self) -> u64 {
        let sources = self
            .members
            .iter()
            .filter_map(|member| member.metrics.as_ref());
        sources.map(|source| source.least_pages()).sum()
    }

    fn metrics_requested(&self) -> u64 {
        let sources = self
            .members
            .iter()
            .filter_map(|member| member.metrics.as_ref());
        sources.map(|source| source.metrics_requested()).sum()
    }
}
