//! The probe: observes the processes of one node and reports to the sweep once a minute. The eBPF
//! programs are in `ebpf/`; this crate contains everything else.

pub mod args;
pub mod attribute;
pub mod cgroup;
pub mod check;
pub mod collector;
pub mod config;
pub mod connect;
pub mod daemon;
pub mod durable;
pub mod gpu;
pub mod interval;
pub mod kernel;
mod kernel_file;
pub mod label;
mod memory;
pub mod network;
pub mod node;
pub mod once;
pub mod pressure;
pub mod procfs;
pub mod program;
pub mod push;
pub mod rules;
pub mod spool;
pub mod systemd;
