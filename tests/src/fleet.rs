//! The fleet generator: plays the nodes of a world as their probes would tell
//! of them, through the real wire code and with each node's own credential. All
//! it sends is labelled simulated.

mod act;
mod clock;
mod send;

pub use act::{heartbeat, is_lost, step_batch};
pub use clock::{BEAT, NodeClock, Part};
pub use send::{Target, play};
