//! The fleet generator. It sends the data of the nodes' probes through the real wire code, with the
//! credential of each node. All data is labelled as simulated.

mod act;
mod clock;
mod send;

pub use act::{heartbeat, is_lost, step_batch};
pub use clock::{BEAT, NodeClock, Part};
pub use send::{Target, play};
