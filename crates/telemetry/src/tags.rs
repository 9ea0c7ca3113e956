//! Tags that Ebb reads.

/// The tag by which a job, or the machine that it runs on, names its pipeline.
pub const PIPELINE_TAG: &str = "ebb:pipeline";

/// The tag by which a job names its run.
pub const RUN_TAG: &str = "ebb:run";
