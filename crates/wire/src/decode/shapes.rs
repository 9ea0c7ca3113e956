//! The structure of each message. Generated from ebb.v1.proto; see tests/generated.rs.

use super::order::{Shape, shape};

pub(super) static HEARTBEATS: Shape = shape(2, &[], &[(1, &SENT), (2, &HEARTBEAT)]);
pub(super) static STEPS: Shape = shape(7, &[2, 3, 4], &[(1, &SENT), (7, &STEP)]);
pub(super) static SENT: Shape = shape(3, &[1], &[]);
pub(super) static HEARTBEAT: Shape = shape(16, &[1, 2, 3], &[(9, &COVERAGE), (10, &HARDWARE), (11, &USAGE), (12, &USAGE), (14, &STEP), (15, &PROBE_COST), (16, &NODE_DETAIL)]);
pub(super) static COVERAGE: Shape = shape(6, &[], &[]);
pub(super) static HARDWARE: Shape = shape(3, &[], &[]);
pub(super) static USAGE: Shape = shape(5, &[], &[]);
pub(super) static PROBE_COST: Shape = shape(10, &[], &[]);
pub(super) static STEP: Shape = shape(19, &[2, 3], &[(18, &TOOL), (19, &DETAIL)]);
pub(super) static DETAIL: Shape = shape(24, &[], &[(9, &BUSY), (10, &SAMPLED), (11, &STEP_NETWORK), (12, &STEP_GPU), (13, &RUN_NAME), (14, &SCHEDULER_LABELS), (15, &OPT_IN_DETAIL), (16, &SYSCALL_IO), (17, &CPU_WITHOUT_PROGRESS), (20, &RECLAIM), (23, &WAITING_TOOL), (24, &NETWORK_PEER)]);
pub(super) static WAITING_TOOL: Shape = shape(3, &[2], &[]);
pub(super) static BUSY: Shape = shape(2, &[], &[]);
pub(super) static SAMPLED: Shape = shape(3, &[], &[]);
pub(super) static TOOL: Shape = shape(6, &[1], &[(6, &TOOL_EVENTS)]);
pub(super) static TOOL_EVENTS: Shape = shape(4, &[], &[]);
pub(super) static NODE_DETAIL: Shape = shape(10, &[1, 9, 10], &[(2, &GPU_USE), (4, &NETWORK_DETAIL), (5, &PRESSURE)]);
pub(super) static GPU_USE: Shape = shape(6, &[2], &[]);
pub(super) static NETWORK_DETAIL: Shape = shape(4, &[], &[]);
pub(super) static PRESSURE: Shape = shape(5, &[], &[]);
pub(super) static STEP_NETWORK: Shape = shape(4, &[], &[]);
pub(super) static NETWORK_PEER: Shape = shape(6, &[], &[]);
pub(super) static STEP_GPU: Shape = shape(4, &[], &[]);
pub(super) static RUN_NAME: Shape = shape(3, &[1, 2, 3], &[]);
pub(super) static SCHEDULER_LABELS: Shape = shape(2, &[1], &[(2, &LABEL)]);
pub(super) static LABEL: Shape = shape(2, &[1, 2], &[]);
pub(super) static OPT_IN_DETAIL: Shape = shape(3, &[1], &[(2, &FILES)]);
pub(super) static FILES: Shape = shape(2, &[1], &[]);
pub(super) static SYSCALL_IO: Shape = shape(4, &[], &[]);
pub(super) static CPU_WITHOUT_PROGRESS: Shape = shape(2, &[], &[]);
pub(super) static RECLAIM: Shape = shape(2, &[], &[]);
