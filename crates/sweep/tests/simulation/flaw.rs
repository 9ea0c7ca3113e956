//! Deliberate breakages of the protocol, each of which the simulation must find.

/// A breakage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The real protocol.
    None,
    /// Messages are deleted when they are received, before the commit.
    DeleteBeforeCommit,
    /// The write of a shard's state reports success but does nothing.
    ForgetStateWrite,
    /// Two sweeps may commit the same batch number.
    IgnoreBatchNumbers,
    /// A commit ignores commits of sweeps with another number of shards.
    IgnoreOtherShards,
    /// Commits of other sweeps are not folded before the next commit.
    SkipCatchUp,
    /// Each load of the state drops the record of what was accepted from a node.
    EvictEarly,
    /// The delivery state is not stored.
    ForgetNotifications,
    /// A node counts as idle although most of the time was not observed.
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
