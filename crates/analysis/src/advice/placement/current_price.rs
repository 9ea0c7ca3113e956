//! Effective price of the machine of a step, and the source of this price.

use std::iter::repeat;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance;
use ebb_telemetry::identity::{InstanceType, Region};

use crate::advice::placement::inputs::Placing;
use crate::facts::Facts;
use crate::hourly_price::Price;
use crate::step_history::observed_task::ObservedTask;

/// Effective price of a machine.
#[derive(Clone, Copy)]
pub(crate) struct Paid<'a> {
    pub(crate) on: &'a InstanceType,
    pub(crate) market: instance::Market,
    pub(crate) price: Price,
}

impl<'a> Paid<'a> {
    pub(crate) fn find(facts: &Facts<'_>, run: &ObservedTask<'a>) -> Option<Self> {
        Some(Self {
            on: &run.instance.instance_type,
            market: run.instance.market,
            price: facts.price_of(run.instance)?,
        })
    }

    /// Whether the price is exact and not only an upper bound.
    pub(crate) fn is_known(&self) -> bool {
        !self.price.basis.is_bound()
    }
}

impl<'a> Placing<'a> {
    /// Commitment that covers a machine, used or not. `None` for spot, and if other machines
    /// certainly use the commitment up.
    pub(crate) fn commitment(
        &self,
        home: &Region,
        now: &TypeSpec,
        market: instance::Market,
    ) -> Option<&'a Commitment> {
        let own = self.catalogue.on_demand(home, &now.name);
        let own = own.unwrap_or_default().0.micros();
        let demand = self.demand.iter().map(|demand| demand.0.micros());
        let mut all = self.markets.commitments.iter().zip(demand.chain(repeat(0)));
        let held = all.find(|(paid, demand)| {
            let pays_for_at_most = paid.pays_for_at_most().0.micros();
            paid.pays_for(home, &now.name) && demand - own < pays_for_at_most
        });
        held.filter(|_| market == instance::Market::OnDemand)
            .map(|(paid, _)| paid)
    }
}
