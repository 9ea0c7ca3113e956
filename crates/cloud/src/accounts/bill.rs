//! Bills of several accounts. Every request costs money, so an account is only read if its nodes
//! are not on the first account's bill. The bill of a management account contains all accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::visibility_gap::{BY_RESOURCE, BY_SERVICE, Gap};
use ebb_telemetry::identity::{AccountId, NodeId};
use jiff::Timestamp;

use super::{Accounts, all_refused, gap};
use crate::ports::{BillSource, CloudError, CloudResult};

impl Accounts {
    /// The accounts with a bill source, the first one first.
    fn with_bills(&self) -> impl Iterator<Item = (&AccountId, &Arc<dyn BillSource>)> {
        let members = self.members.iter();
        members.filter_map(|member| Some((&member.id, member.bill.as_ref()?)))
    }

    /// Whether any node of an account is in `costs`; `None` if the account has no known nodes.
    fn are_billed(&self, id: &AccountId, costs: &BTreeMap<NodeId, ResourceCost>) -> Option<bool> {
        let learnt = self.learnt();
        let owned = learnt.owner.iter().filter(|(_, owner)| *owner == id);
        let mut mine = owned.map(|(node, _)| node).peekable();
        mine.peek()?;
        Some(mine.any(|node| costs.contains_key(node)))
    }

    /// The first account, and the accounts whose Savings Plans it does not report.
    fn with_plans(&self) -> Vec<(AccountId, Arc<dyn BillSource>)> {
        let on_the_first: BTreeSet<AccountId> = self.learnt().on_the_first.clone();
        let sources = self
            .with_bills()
            .filter(|(id, _)| !on_the_first.contains(*id));
        sources
            .map(|(id, bill)| (id.clone(), bill.clone()))
            .collect()
    }

    /// Records a gap for each account that refused while another answered.
    fn not_billed<T>(
        &self,
        scope: &str,
        answer: Option<T>,
        refusals: Vec<(AccountId, CloudError)>,
    ) -> CloudResult<T> {
        let Some(answer) = answer else {
            return Err(all_refused(refusals));
        };
        let gaps = refusals.iter().map(|(id, error)| gap(id, scope, error));
        self.learnt().unbilled.extend(gaps);
        Ok(answer)
    }
}

#[async_trait]
impl BillSource for Accounts {
    /// The first account's bill. Every request costs money, so the bill of another account is read
    /// only in one case: it has nodes, and none of them is on the first bill.
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        let mut costs: Option<BTreeMap<NodeId, ResourceCost>> = None;
        let mut refusals = Vec::new();
        self.learnt().forget_bills();
        for (at, (id, bill)) in self.with_bills().enumerate() {
            if let Some(costs) = &costs
                && self.are_billed(id, costs).unwrap_or(true)
            {
                continue;
            }
            match bill.by_resource(to).await {
                Ok(account_costs) if at == 0 => {
                    let others = self.with_bills().skip(1).map(|(id, _)| id);
                    let on_it =
                        others.filter(|id| self.are_billed(id, &account_costs) == Some(true));
                    let on_it = on_it.cloned().collect();
                    self.learnt().on_the_first = on_it;
                    costs = Some(account_costs);
                }
                Ok(account_costs) => {
                    self.learnt().own_bill.insert(id.clone());
                    costs.get_or_insert_default().extend(account_costs);
                }
                Err(error) => refusals.push((id.clone(), error)),
            }
        }
        self.not_billed(BY_RESOURCE, costs, refusals)
    }

    /// The sum of the first account's bill and the other bills that [`Self::by_resource`] read.
    async fn by_day(&self, to: Timestamp, tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        let own_bill = self.learnt().own_bill.clone();
        let mut sum: Option<BTreeMap<String, BilledDay>> = None;
        let mut refusals = Vec::new();
        for (at, (id, bill)) in self.with_bills().enumerate() {
            if at > 0 && !own_bill.contains(id) {
                continue;
            }
            let days = match bill.by_day(to, tags).await {
                Ok(days) => days,
                Err(error) => {
                    refusals.push((id.clone(), error));
                    continue;
                }
            };
            let sum = sum.get_or_insert_default();
            for day in days {
                match sum.get_mut(&day.day) {
                    Some(known) => known.add(day),
                    None => drop(sum.insert(day.day.clone(), day)),
                }
            }
        }
        if sum.is_none() && refusals.is_empty() {
            return Ok(Vec::new());
        }
        let sum = self.not_billed(BY_SERVICE, sum, refusals)?;
        Ok(sum.into_values().collect())
    }

    /// Savings Plans of each account that the first one does not report; a management account
    /// reports all.
    async fn plans(&self, to: Timestamp) -> CloudResult<Vec<Commitment>> {
        let (mut all, mut refusals) = (None, Vec::new());
        for (id, bill) in self.with_plans() {
            match bill.plans(to).await {
                Ok(plans) => all.get_or_insert_with(BTreeMap::new).extend(
                    // Two accounts can report the same plan.
                    plans.into_iter().map(|plan| (plan.id.clone(), plan)),
                ),
                Err(error) => refusals.push((id, error)),
            }
        }
        if all.is_none() && refusals.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.not_billed("Savings Plans", all, refusals)?;
        Ok(all.into_values().collect())
    }

    fn least_plan_requests(&self) -> u64 {
        self.with_plans().len() as u64
    }

    fn take_gaps(&self) -> Vec<Gap> {
        std::mem::take(&mut self.learnt().unbilled)
    }

    fn requests(&self) -> u64 {
        self.with_bills().map(|(_, bill)| bill.requests()).sum()
    }

    fn is_charged_for(&self) -> bool {
        true
    }

    fn gaps(&self, _to: Timestamp) -> Vec<Gap> {
        Vec::new()
    }
}
