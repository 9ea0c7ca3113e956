//! Reads the data of a cloud account.

pub mod account;
pub mod cache;
pub mod catalog_refresh;
pub mod inventory;
pub mod metered_calls;
pub mod price_list;
pub mod spot_market;
