//! The fold: takes what arrived, commits it to the lake once, and only then deletes
//! it. A crash at any point loses nothing and counts nothing twice, because whatever
//! was not deleted comes again, and what the lake holds and the state does not is
//! folded before anything is taken. So the state is written once in many batches.

pub mod dead_letter;
pub mod folder;
pub mod guard;
pub mod intake;
pub mod receive;
pub mod working_state;

/// Batches after which the state is written. After a crash the next sweep folds what
/// is missing from the lake: of so many full batches in a few seconds.
const BATCHES_A_STATE: u64 = 20;

/// Nodes of other shards that are held from one batch to the next: as many as a shard
/// should have itself. Where there are more, their states are read again.
const MAX_OTHERS_NODES: usize = 100_000;
