//! The fold: reads arrivals, commits them to the lake once, and then deletes them. A crash at any
//! point neither loses data nor counts data twice. Arrivals that were not deleted arrive again. A
//! sweep first folds the commits that the lake has and the state lacks. Therefore the state is
//! written only once in many batches.

pub mod dead_letter;
pub mod folder;
pub mod guard;
pub mod intake;
pub mod receive;
mod shared_name;
pub mod working_state;

/// Number of batches between writes of the state. After a crash the next sweep folds the missing
/// batches from the lake, which takes a few seconds.
const BATCHES_A_STATE: u64 = 20;

/// Limit on cached nodes of other shards between batches: the recommended size of a shard. Above
/// the limit the states of other shards are read again.
const MAX_OTHERS_NODES: usize = 100_000;
