//! A list price and what it rests on.

use ebb_telemetry::money::UsdPerHour;

/// An on-demand price and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPrice {
    /// The price.
    pub usd_per_hour: UsdPerHour,
    /// Where it comes from.
    pub basis: PriceBasis,
}

/// Where a price of the catalogue comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceBasis {
    /// From the list, and it agrees with its family.
    Listed,
    /// From the list, with nothing in that region to check it against.
    Unchecked,
    /// Size times the family's price in that region, or that of a region which charges
    /// the same: the list has none for this type there, or that of dedicated tenancy.
    FromFamily,
    /// From an earlier list, because the newest has none that can be used.
    Earlier,
    /// As AWS's Price List told it after the program was built.
    Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Priced {
    pub(crate) type_index: usize,
    pub(crate) price: ListPrice,
}
