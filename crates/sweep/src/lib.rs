//! Gather, fold, judge, publish: one sweep over the ports. The Lambda and the
//! terminal program are thin users of it. Without the feature `lake` there is no
//! probe's word to fold, and [`scan`] judges by inventory and metrics alone.

pub mod catalogue;
pub mod changes;
#[cfg(feature = "lake")]
pub mod deadline;
pub mod decisions;
#[cfg(feature = "lake")]
pub mod fold;
pub mod gather;
pub mod mend;
#[cfg(feature = "arrivals")]
pub mod place;
pub mod publish;
pub mod reason;
#[cfg(feature = "arrivals")]
pub mod remembered;
pub mod render;
pub mod report_file;
#[cfg(feature = "lake")]
pub mod run;
pub mod scan;
#[cfg(feature = "lake")]
pub mod site;
#[cfg(feature = "arrivals")]
pub mod stored;
#[cfg(feature = "lake")]
pub mod truth;
pub mod tune;
