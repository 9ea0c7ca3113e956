//! Deliberate breakages of the protocol, each of which the simulation must find.

/// A breakage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The real protocol.
    None,
    /// Messages are deleted when they are received, before the commit.
    DeleteBeforeCommit,
    /// The state of a shard is said to be written and is not.
    ForgetStateWrite,
    /// Two sweeps may commit the same batch number.
    IgnoreBatchNumbers,
    /// A commit does not look at what sweeps of another number of shards committed.
    IgnoreOtherShards,
    /// What other sweeps committed is not folded before the next commit.
    SkipCatchUp,
    /// A node's memory of what was accepted is dropped with each load of the state.
    EvictEarly,
    /// What people were notified of is not remembered.
    ForgetNotifications,
    /// A node counts as idle although most of the time was not seen.
    IgnoreCoverage,
    /// A refused message is deleted without a copy among the dead letters.
    DropRefused,
}

impl Flaw {
    pub(crate) const ALL: [Self; 9] = [
        Self::DeleteBeforeCommit,
        Self::ForgetStateWrite,
        Self::IgnoreBatchNumbers,
        Self::IgnoreOtherShards,
        Self::SkipCatchUp,
        Self::EvictEarly,
        Self::ForgetNotifications,
        Self::IgnoreCoverage,
        Self::DropRefused,
    ];
}
