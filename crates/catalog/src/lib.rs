//! Machine types and their prices: built in, and refreshed with later answers of AWS.

pub mod catalog;
pub mod fargate_prices;
pub mod list_price;
pub mod machine_type;
pub mod parse;
pub mod refreshed_prices;
pub mod spot_advisor;
pub mod spot_terms;
pub mod storage_prices;
