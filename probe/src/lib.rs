//! The probe: what one node's processes do, told to the sweep once a minute.
//! The kernel half stands in `ebpf/`; this is everything above it.

pub mod attribute;
pub mod cgroup;
pub mod interval;
pub mod kernel;
pub mod push;
pub mod rules;
pub mod spool;
