//! A list price and its basis.

use ebb_telemetry::money::UsdPerHour;

/// An on-demand price and its basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPrice {
    /// The price.
    pub usd_per_hour: UsdPerHour,
    /// Its source.
    pub basis: PriceBasis,
}

/// The source of a price in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceBasis {
    /// The price list; the price is consistent with its family.
    Listed,
    /// The price list; no other price in that region can confirm it.
    Unchecked,
    /// Size times the family's price in that region, or in a region with the same prices. The list
    /// has no price for this type in the region, or only one for dedicated tenancy.
    FromFamily,
    /// An earlier price list, because the newest has no usable price.
    Earlier,
    /// AWS's Price List, read after the program was built.
    Refresh,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Priced {
    pub(crate) type_index: usize,
    pub(crate) price: ListPrice,
}
