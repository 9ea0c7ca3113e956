//! What Ebb decides, and the words it decides in. Everything here is pure:
//! no clock, environment, network, file or randomness; facts in, decision out.

pub mod activity;
pub mod catalogue;
pub mod decision;
pub mod finding;
pub mod fleet;
pub mod gpu;
pub mod heartbeat;
pub mod hours;
pub mod identity;
pub mod judge;
pub mod ledger;
pub mod life;
pub mod placement;
pub mod policy;
pub mod profile;
pub mod report;
pub mod rules;
pub mod runs;
pub mod safe_text;
pub mod savings;
pub mod shell;
pub mod sizing;
pub mod state;
pub mod step;
pub mod targets;
pub mod timeline;
pub mod units;
