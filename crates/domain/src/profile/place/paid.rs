//! What is paid for the machine that a step runs on, and by what.

use std::iter::repeat;

use super::Placing;
use crate::catalogue::TypeSpec;
use crate::fleet::{self, Commitment};
use crate::identity::{InstanceType, Region};
use crate::judge::{Facts, Price};
use crate::profile::gather::SeenRun;

/// What is paid for a machine.
#[derive(Clone, Copy)]
pub(crate) struct Paid<'a> {
    pub(crate) on: &'a InstanceType,
    pub(crate) market: fleet::Market,
    pub(crate) price: Price,
}

impl<'a> Paid<'a> {
    pub(super) fn of(facts: &Facts<'_>, run: &SeenRun<'a>) -> Option<Self> {
        Some(Self {
            on: &run.instance.instance_type,
            market: run.instance.market,
            price: facts.price_of(run.instance)?,
        })
    }

    /// Whether it is what is paid, and not only a bound of that.
    pub(crate) fn is_known(&self) -> bool {
        !self.price.basis.is_bound()
    }
}

impl<'a> Placing<'a> {
    /// What pays for a machine whether or not it is used; `None` for spot, and where
    /// others surely use the commitment up without it.
    pub(crate) fn commitment(
        &self,
        home: &Region,
        now: &TypeSpec,
        market: fleet::Market,
    ) -> Option<&'a Commitment> {
        let own = self.catalogue.on_demand(home, &now.name);
        let own = own.unwrap_or_default().0.micros();
        let demand = self.demand.iter().map(|demand| demand.0.micros());
        let mut all = self.markets.commitments.iter().zip(demand.chain(repeat(0)));
        let held = all.find(|(paid, demand)| {
            let pays_for_at_most = paid.pays_for_at_most().0.micros();
            paid.pays_for(home, &now.name) && demand - own < pays_for_at_most
        });
        held.filter(|_| market == fleet::Market::OnDemand)
            .map(|(paid, _)| paid)
    }
}
