//! Market data of several accounts. Prices are the same for all accounts, so the first answer is
//! used; its zone names are those of the answering account. Reservations belong to each account.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use ebb_catalog::spot_advisor::Advisor;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_telemetry::identity::{AccountId, InstanceType, Region};

use super::{Accounts, Member, all_refused};
use crate::ports::{CloudResult, MarketSource};

impl Accounts {
    fn with_markets(&self, region: &Region) -> Vec<(AccountId, Arc<dyn MarketSource>)> {
        let members = self.with_region(region).into_iter();
        members.filter_map(market_of).collect()
    }
}

fn market_of(member: Member) -> Option<(AccountId, Arc<dyn MarketSource>)> {
    Some((member.id, member.markets?))
}

async fn first<T, F>(
    members: Vec<(AccountId, Arc<dyn MarketSource>)>,
    ask: impl Fn(Arc<dyn MarketSource>) -> F + Send,
) -> CloudResult<T>
where
    T: Send,
    F: Future<Output = CloudResult<T>> + Send,
{
    let mut refusals = Vec::new();
    for (id, source) in members {
        match ask(source).await {
            Ok(answer) => return Ok(answer),
            Err(error) => refusals.push((id, error)),
        }
    }
    Err(all_refused(refusals))
}

#[async_trait]
impl MarketSource for Accounts {
    async fn spot_prices(&self, region: &Region) -> CloudResult<BTreeMap<InstanceType, SpotTerms>> {
        let ask = |source: Arc<dyn MarketSource>| async move { source.spot_prices(region).await };
        first(self.with_markets(region), ask).await
    }

    async fn zones(
        &self,
        region: &Region,
    ) -> CloudResult<BTreeMap<InstanceType, BTreeSet<String>>> {
        let ask = |source: Arc<dyn MarketSource>| async move { source.zones(region).await };
        first(self.with_markets(region), ask).await
    }

    /// Reservations of every account. If one account refuses, the whole call fails, because a
    /// partial list would be wrong.
    async fn reserved(&self, region: &Region) -> CloudResult<Vec<Commitment>> {
        let mut all = Vec::new();
        for (id, source) in self.with_markets(region) {
            let answer = source.reserved(region).await;
            all.extend(answer.map_err(|error| all_refused(vec![(id, error)]))?);
        }
        Ok(all)
    }

    async fn spot_score(&self, wish: &SpotWish) -> CloudResult<Option<u8>> {
        let ask = |source: Arc<dyn MarketSource>| {
            let wish = wish.clone();
            async move { source.spot_score(&wish).await }
        };
        first(self.with_markets(&wish.region), ask).await
    }

    async fn interruptions(&self) -> CloudResult<Advisor> {
        let members = self.members.iter().cloned().filter_map(market_of);
        let ask = |source: Arc<dyn MarketSource>| async move { source.interruptions().await };
        first(members.collect(), ask).await
    }
}
