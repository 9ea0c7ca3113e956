//! The probe: observes the processes of one node and reports to the sweep once a minute. The eBPF
//! programs are in `ebpf/`; this crate contains everything else.

pub mod args;
pub mod attribute;
pub mod cgroup;
pub mod check;
pub mod collector;
pub mod commands;
pub mod config;
pub mod connect;
pub mod container_names;
pub mod daemon;
pub mod durable;
pub mod gpu;
pub mod interval;
pub mod kernel;
mod kernel_file;
pub mod label;
pub mod label_rules;
mod local_socket;
pub mod manual;
mod memory;
pub mod network;
pub mod node;
pub mod pressure;
pub mod probe_run;
mod proc_stat;
pub mod procfs;
pub mod push;
pub mod snapshot;
pub mod spool;
pub mod systemd;
pub mod update;
pub mod watch;
