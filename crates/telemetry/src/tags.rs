//! Tags that Ebb reads.

/// The tag with the pipeline name, on a job or on the machine that it runs on.
pub const PIPELINE_TAG: &str = "ebb:pipeline";

/// The tag with the run name, on a job.
pub const RUN_TAG: &str = "ebb:run";
