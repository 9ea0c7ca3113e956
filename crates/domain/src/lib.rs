//! What Ebb decides, and the words it decides in. Everything here is pure:
//! no clock, environment, network, file or randomness; facts in, decision out.

pub mod decision;
pub mod finding;
pub mod fleet;
pub mod hours;
pub mod judge;
pub mod ledger;
pub mod life;
pub mod placement;
pub mod policy;
pub mod profile;
pub mod report;
pub mod rules;
pub mod runs;

pub mod savings;
pub mod shell;
pub mod sizing;
pub mod state;
pub mod targets;
pub mod timeline;

pub use ebb_telemetry::{activity, gpu_sample as gpu, identity, safe_text, step};

/// Telemetry by its earlier paths.
pub mod heartbeat {
    pub use ebb_telemetry::arrival::*;
    pub use ebb_telemetry::heartbeat::*;
    pub use ebb_telemetry::origin::Origin;
    pub use ebb_telemetry::time::BootClock;
}

/// Telemetry by its earlier paths.
pub mod units {
    pub use ebb_telemetry::money::{Usd, UsdPerHour, grouped};
    pub use ebb_telemetry::units::*;
}

/// The catalog by its earlier paths.
pub mod catalogue {
    pub use ebb_catalog::catalog::*;
    pub use ebb_catalog::fargate_prices::*;
    pub use ebb_catalog::list_price::*;
    pub use ebb_catalog::machine_type::*;
    pub use ebb_catalog::parse::*;
    pub use ebb_catalog::refreshed_prices::*;
    pub use ebb_catalog::spot_advisor as advisor;
    pub use ebb_catalog::storage_prices::*;
}
