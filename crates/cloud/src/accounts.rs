//! Presents several accounts as one behind the same ports. Each region is read in every account
//! that has it enabled, in parallel. If an account refuses, a gap names it.

mod bill;
mod markets;
mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::{ALL_ACCOUNTS, Gap, Refused};
use ebb_telemetry::identity::{AccountId, NodeId, Region};

use crate::ports::{
    BillSource, CloudError, CloudResult, InventorySource, MarketSource, MetricsSource,
};
use crate::turns::{ACCOUNTS_AT_ONCE, in_turns_of};

/// One account and its data sources.
#[derive(Clone)]
pub struct Member {
    /// The account id.
    pub id: AccountId,
    /// The inventory.
    pub inventory: Arc<dyn InventorySource>,
    /// Utilization; `None` if it is not read.
    pub metrics: Option<Arc<dyn MetricsSource>>,
    /// The bill; `None` if it is not read.
    pub bill: Option<Arc<dyn BillSource>>,
    /// Prices and market data of machines; `None` if they are not read.
    pub markets: Option<Arc<dyn MarketSource>>,
}

#[derive(Debug, Default)]
struct Learnt {
    /// The enabled regions of each account, after it answered.
    enabled: BTreeMap<AccountId, BTreeSet<Region>>,
    /// The account of each node.
    owner: BTreeMap<NodeId, AccountId>,
    /// Accounts whose nodes are on the bill of the first account, as with a management account.
    on_the_first: BTreeSet<AccountId>,
    /// Accounts after the first whose own bill was read, because the first one's lacks their nodes.
    own_bill: BTreeSet<AccountId>,
    /// Gaps for accounts that refused metrics while another account answered.
    unheard: Vec<Gap>,
    /// The same for bills.
    unbilled: Vec<Gap>,
}

impl Learnt {
    fn forget_bills(&mut self) {
        self.on_the_first.clear();
        self.own_bill.clear();
    }
}

/// Accounts that are read together. The bill of the first is read first, because the bill of a
/// management account contains all accounts.
#[derive(Clone)]
pub struct Accounts {
    members: Vec<Member>,
    gaps: Vec<Gap>,
    learnt: Arc<Mutex<Learnt>>,
}

impl Accounts {
    /// Combines these accounts; `gaps` contains the accounts that could not be entered, with the
    /// reason.
    pub fn new(members: Vec<Member>, gaps: Vec<Gap>) -> Self {
        Self {
            members,
            gaps,
            learnt: Arc::default(),
        }
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configured accounts, with those that could not be entered: their resources may still exist.
    /// Empty if the accounts of the organization are not known.
    fn configured(&self) -> BTreeSet<AccountId> {
        let mut gaps = self.gaps.iter();
        if gaps.any(|gap| gap.scope.starts_with(ALL_ACCOUNTS)) {
            return BTreeSet::new();
        }
        let entered = self.members.iter().map(|member| member.id.clone());
        let refused = self.gaps.iter().filter_map(Gap::account);
        entered.chain(refused).collect()
    }

    fn with_region(&self, region: &Region) -> Vec<Member> {
        let learnt = self.learnt();
        let has = |member: &&Member| {
            let enabled = learnt.enabled.get(&member.id);
            enabled.is_none_or(|enabled| enabled.contains(region))
        };
        self.members.iter().filter(has).cloned().collect()
    }
}

fn gap(account: &AccountId, scope: &str, error: &CloudError) -> Gap {
    Refused::from(error.clone()).gap(Gap::of_account(account, scope))
}

/// The error if no account answered: the first refusal.
fn all_refused(refusals: Vec<(AccountId, CloudError)>) -> CloudError {
    let count = refusals.len();
    let mut refusals = refusals;
    refusals.sort_by(|(a, _), (b, _)| a.cmp(b));
    match refusals.into_iter().next() {
        Some((_, error)) if count == 1 => error,
        Some((account, error)) => CloudError::Failed {
            operation: "every account".to_owned(),
            message: format!("{count} accounts failed; first error, from {account}: {error}"),
        },
        None => CloudError::Failed {
            operation: "every account".to_owned(),
            message: "no account has this region enabled".to_owned(),
        },
    }
}

#[async_trait]
impl InventorySource for Accounts {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        let calls = self.members.iter().cloned().map(|member| async move {
            let regions = member.inventory.regions().await;
            (member.id, regions)
        });
        let (mut all, mut refusals) = (BTreeSet::new(), Vec::new());
        for (account, answer) in in_turns_of(ACCOUNTS_AT_ONCE, calls.collect::<Vec<_>>()).await {
            match answer {
                Ok(regions) => {
                    all.extend(regions.iter().cloned());
                    let enabled = regions.into_iter().collect();
                    self.learnt().enabled.insert(account, enabled);
                }
                // The account is still read in every region of the others, and refuses there with a
                // gap.
                Err(error) => refusals.push((account, error)),
            }
        }
        match all.is_empty() {
            true => Err(all_refused(refusals)),
            false => Ok(all.into_iter().collect()),
        }
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let calls = self.with_region(region).into_iter().map(|member| {
            let region = region.clone();
            async move {
                let answer = member.inventory.gather(&region).await;
                (member.id, answer)
            }
        });
        let (mut all, mut refusals, mut answered) = (Inventory::default(), Vec::new(), false);
        for (account, answer) in in_turns_of(ACCOUNTS_AT_ONCE, calls.collect::<Vec<_>>()).await {
            match answer {
                Ok(mut found) => {
                    answered = true;
                    for gap in &mut found.gaps {
                        gap.scope = Gap::of_account(&account, &gap.scope);
                    }
                    found.belongs_to(&account);
                    let mut learnt = self.learnt();
                    for node in found.instances.keys() {
                        learnt.owner.insert(node.clone(), account.clone());
                    }
                    drop(learnt);
                    all.absorb(found);
                }
                Err(error) => refusals.push((account, error)),
            }
        }
        if !answered {
            return Err(all_refused(refusals));
        }
        let scope = format!("{region}: inventory");
        let refused = refusals
            .iter()
            .map(|(account, error)| gap(account, &scope, error));
        all.gaps.extend(refused);
        all.gaps.sort();
        all.scope.accounts = self.configured();
        Ok(all)
    }

    fn not_entered(&self) -> Vec<Gap> {
        self.gaps.clone()
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::bill::{BilledDay, ResourceCost};
    use ebb_model::inventory::commitments::Commitment;
    use ebb_model::inventory::instance::{Instance, InstanceState, Market};
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::{Usd, UsdPerHour};
    use jiff::Timestamp;

    use super::*;
    use crate::failing::{Failing, Fault};
    use crate::fake::{FakeBill, FakeInventory, FakeMetrics};

    fn account(n: u8) -> AccountId {
        AccountId::new(format!("{n:012}")).expect("an account")
    }

    fn region(name: &str) -> Region {
        Region::new(name).expect("a region")
    }

    fn node(id: &str) -> NodeId {
        NodeId::new(id).expect("a node")
    }

    fn with(id: &str, at: &Region) -> Inventory {
        let kind = InstanceType::new("m5.large").expect("a type");
        let running = InstanceState::Running;
        let one = Instance::new(node(id), at.clone(), kind, running, Market::OnDemand);
        let mut inventory = Inventory::default();
        inventory.instances.insert(node(id), one);
        inventory
    }

    fn denied() -> CloudError {
        CloudError::Denied {
            operation: "ec2:DescribeInstances".to_owned(),
            message: "no".to_owned(),
        }
    }

    fn member(n: u8, inventory: FakeInventory, billed: &[&str]) -> Member {
        let cost = ResourceCost {
            by_day: BTreeMap::from([("2026-03-01".to_owned(), Usd::from_micros(1))]),
        };
        let costs = billed.iter().map(|id| (node(id), cost.clone()));
        Member {
            id: account(n),
            inventory: Arc::new(inventory),
            metrics: Some(Arc::new(FakeMetrics::default())),
            bill: Some(Arc::new(FakeBill::new(Ok(costs.collect())))),
            markets: None,
        }
    }

    #[tokio::test]
    async fn the_inventory_names_the_configured_accounts_unless_they_are_not_known() {
        let a = region("a-1");
        let first = FakeInventory::new(BTreeMap::from([(a.clone(), with("i-1", &a))]));
        let second = FakeInventory::default();
        second.set(a.clone(), Err(denied()));
        let members = vec![member(1, first, &[]), member(2, second, &[])];
        let named = async |gaps: &[String]| {
            let gaps = gaps.iter().map(|scope| Gap::new(scope.as_str(), "denied"));
            let all = Accounts::new(members.clone(), gaps.collect());
            all.gather(&a).await.expect("one answers").scope.accounts
        };
        let both = BTreeSet::from([account(1), account(2)]);
        assert_eq!(named(&[]).await, both);
        let refused = Gap::not_entered(&account(3), "sts:AssumeRole");
        let all = BTreeSet::from([account(1), account(2), account(3)]);
        assert_eq!(named(&[refused]).await, all);
        assert!(named(&[ALL_ACCOUNTS.to_owned()]).await.is_empty());
    }

    #[tokio::test]
    async fn accounts_are_asked_where_they_are_enabled_and_a_refusal_names_its_account() {
        let (a, b) = (region("a-1"), region("b-1"));
        let first = FakeInventory::new(BTreeMap::from([(a.clone(), with("i-1", &a))]));
        let second = FakeInventory::new(BTreeMap::from([
            (a.clone(), Inventory::default()),
            (b.clone(), with("i-2", &b)),
        ]));
        second.set(a.clone(), Err(denied()));
        let all = Accounts::new(
            vec![member(1, first, &[]), member(2, second, &[])],
            Vec::new(),
        );
        assert_eq!(all.regions().await, Ok(vec![a.clone(), b.clone()]));
        let found = all.gather(&a).await.expect("one account answers");
        assert_eq!(found.instances.len(), 1);
        assert_eq!(found.instances[&node("i-1")].account, Some(account(1)));
        assert_eq!(found.gaps[0].scope, "account 000000000002 a-1: inventory");
        let found = all
            .gather(&b)
            .await
            .expect("the only one that has it answers");
        assert!(found.gaps.is_empty(), "{:?}", found.gaps);
    }

    #[tokio::test]
    async fn a_region_that_every_account_refuses_is_refused() {
        let a = region("a-1");
        let refusing = || {
            let inventory = FakeInventory::new(BTreeMap::new());
            inventory.set(a.clone(), Err(denied()));
            inventory
        };
        let all = vec![member(1, refusing(), &[]), member(2, refusing(), &[])];
        let error = Accounts::new(all, Vec::new()).gather(&a).await;
        let words = error.expect_err("all refuse").to_string();
        assert!(
            words.contains("2 accounts failed; first error, from 000000000001"),
            "{words}"
        );
    }

    #[tokio::test]
    async fn a_management_accounts_bill_is_asked_alone() {
        let a = region("a-1");
        let check = async |on_the_first: &[&str], expect: usize| {
            let holding = |id| FakeInventory::new(BTreeMap::from([(a.clone(), with(id, &a))]));
            let members = vec![
                member(1, holding("i-1"), on_the_first),
                member(2, holding("i-2"), &["i-2", "i-3"]),
            ];
            let all = Accounts::new(members, Vec::new());
            all.gather(&a).await.expect("both answer");
            let costs = all
                .by_resource(Timestamp::UNIX_EPOCH)
                .await
                .expect("a bill");
            assert_eq!(costs.len(), expect, "{on_the_first:?}");
        };
        check(&["i-1", "i-2"], 2).await;
        check(&["i-1"], 3).await;
    }

    #[tokio::test]
    async fn days_are_summed_over_the_bills_that_were_read() {
        let a = region("a-1");
        let check = async |on_the_first: &[&str], expect: i64| {
            let holding = |id| FakeInventory::new(BTreeMap::from([(a.clone(), with(id, &a))]));
            let day = |usd| BilledDay {
                day: "2026-11-01".into(),
                total: Usd::from_micros(usd),
                by_service: BTreeMap::from([("EC2".into(), Usd::from_micros(usd))]),
                ..BilledDay::default()
            };
            let cost = ResourceCost::default();
            let bill = |ids: &[&str], usd| {
                let costs = ids.iter().map(|id| (node(id), cost.clone())).collect();
                FakeBill::new(Ok(costs)).with_days(vec![day(usd)])
            };
            let mut members = vec![
                member(1, holding("i-1"), &[]),
                member(2, holding("i-2"), &[]),
            ];
            members[0].bill = Some(Arc::new(bill(on_the_first, 5)));
            members[1].bill = Some(Arc::new(bill(&["i-2"], 3)));
            let all = Accounts::new(members, Vec::new());
            all.gather(&a).await.expect("both answer");
            let at = Timestamp::UNIX_EPOCH;
            all.by_resource(at).await.expect("a bill");
            let days = all.by_day(at, &[]).await.expect("a bill");
            assert_eq!(days, [day(expect)], "{on_the_first:?}");
        };
        check(&["i-1", "i-2"], 5).await;
        check(&["i-1"], 8).await;
    }

    fn plan(id: &str) -> Commitment {
        Commitment {
            id: id.to_owned(),
            region: None,
            family: None,
            per_hour: UsdPerHour::from_micros(1),
            until: None,
            used: None,
        }
    }

    #[tokio::test]
    async fn plans_are_requested_of_accounts_that_the_first_does_not_bill_and_refusals_are_gaps() {
        let a = region("a-1");
        let costs = |billed: &[&str]| {
            let cost = ResourceCost::default();
            billed.iter().map(|id| (node(id), cost.clone())).collect()
        };
        let check = async |on_the_first: &[&str],
                           second: CloudResult<Vec<Commitment>>,
                           (ids, gaps, requests): (&[&str], usize, u64)| {
            let holding = |id| FakeInventory::new(BTreeMap::from([(a.clone(), with(id, &a))]));
            let mut members = vec![
                member(1, holding("i-1"), &[]),
                member(2, holding("i-2"), &[]),
            ];
            let both = Ok(vec![plan("p-1"), plan("p-both")]);
            let bill = FakeBill::new(Ok(costs(on_the_first))).with_plans(both);
            members[0].bill = Some(Arc::new(bill));
            let bill = FakeBill::new(Ok(costs(&["i-2"]))).with_plans(second);
            members[1].bill = Some(Arc::new(bill));
            let all = Accounts::new(members, Vec::new());
            all.gather(&a).await.expect("both answer");
            all.by_resource(Timestamp::UNIX_EPOCH)
                .await
                .expect("a bill");
            assert_eq!(all.least_plan_requests(), requests);
            let plans = all
                .plans(Timestamp::UNIX_EPOCH)
                .await
                .expect("the first answers");
            let plan_ids: Vec<_> = plans.iter().map(|plan| plan.id.as_str()).collect();
            assert_eq!(plan_ids, ids, "{on_the_first:?}");
            let plan_gaps = BillSource::take_gaps(&all);
            assert_eq!(plan_gaps.len(), gaps, "{plan_gaps:?}");
            assert!(
                plan_gaps
                    .iter()
                    .all(|gap| gap.scope == "account 000000000002 Savings Plans")
            );
            assert!(
                BillSource::take_gaps(&all).is_empty(),
                "they are returned once"
            );
        };
        let more = || Ok(vec![plan("p-2"), plan("p-both")]);
        check(&["i-1", "i-2"], more(), (&["p-1", "p-both"], 0, 1)).await;
        check(&["i-1"], more(), (&["p-1", "p-2", "p-both"], 0, 2)).await;
        check(&["i-1"], Err(denied()), (&["p-1", "p-both"], 1, 2)).await;
    }

    #[tokio::test]
    async fn an_account_that_refuses_metrics_is_named_where_another_answers() {
        let a = region("a-1");
        let holding = |id| FakeInventory::new(BTreeMap::from([(a.clone(), with(id, &a))]));
        let mut members = vec![
            member(1, holding("i-1"), &[]),
            member(2, holding("i-2"), &[]),
        ];
        let fault = Fault::always("metrics.utilization");
        let refuses = Failing::new(FakeMetrics::default(), &fault);
        members[1].metrics = Some(Arc::new(refuses));
        let all = Accounts::new(members, Vec::new());
        all.gather(&a).await.expect("both answer");
        let nodes = ["i-1", "i-2"].map(|id| (node(id), Vec::new())).into();
        let (from, to) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let answer = all.utilization(&a, &nodes, from, to).await;
        assert!(answer.is_ok(), "the first answers");
        let gaps = MetricsSource::take_gaps(&all);
        assert_eq!(gaps[0].scope, "account 000000000002 a-1: metrics");
        assert!(gaps[0].reason.contains("metrics.utilization"), "{gaps:?}");
        assert!(
            MetricsSource::take_gaps(&all).is_empty(),
            "they are returned once"
        );
    }
}
