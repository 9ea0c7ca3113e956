//! The columns that version 1.4 of the wire contract added.

use ebb_telemetry::step::resource_usage::{CpuWithoutProgress, Reclaim, SyscallIo};
use ebb_telemetry::units::Bytes;
use serde::{Deserialize, Serialize};

use super::super::column::{ColumnError, get, get_some, get_time, put, put_some, put_time};

/// Bytes and calls to read and write.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SyscallIoRow {
    read_bytes: i64,
    written_bytes: i64,
    read_calls: i64,
    write_calls: i64,
}

impl SyscallIoRow {
    pub(super) fn new(io: &SyscallIo) -> Result<Self, ColumnError> {
        Ok(Self {
            read_bytes: put("detail.asked.read_bytes", io.read.0)?,
            written_bytes: put("detail.asked.written_bytes", io.written.0)?,
            read_calls: put("detail.asked.read_calls", io.read_calls)?,
            write_calls: put("detail.asked.write_calls", io.write_calls)?,
        })
    }

    pub(super) fn get(&self) -> Result<SyscallIo, ColumnError> {
        Ok(SyscallIo {
            read: Bytes(get("detail.asked.read_bytes", self.read_bytes)?),
            written: Bytes(get("detail.asked.written_bytes", self.written_bytes)?),
            read_calls: get("detail.asked.read_calls", self.read_calls)?,
            write_calls: get("detail.asked.write_calls", self.write_calls)?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CpuWithoutProgressRow {
    now_ns: i64,
    longest_ns: i64,
}

impl CpuWithoutProgressRow {
    pub(super) fn new(cpu_time: &CpuWithoutProgress) -> Result<Self, ColumnError> {
        Ok(Self {
            now_ns: put_time("detail.unmoved.now_ns", cpu_time.now)?,
            longest_ns: put_time("detail.unmoved.longest_ns", cpu_time.longest)?,
        })
    }

    pub(super) fn get(&self) -> Result<CpuWithoutProgress, ColumnError> {
        Ok(CpuWithoutProgress {
            now: get_time("detail.unmoved.now_ns", self.now_ns)?,
            longest: get_time("detail.unmoved.longest_ns", self.longest_ns)?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReclaimRow {
    taken_bytes: Option<i64>,
    limit_hits: i64,
}

impl ReclaimRow {
    pub(super) fn new(reclaim: &Reclaim) -> Result<Self, ColumnError> {
        let taken = reclaim.pages_reclaimed.map(|bytes| bytes.0);
        Ok(Self {
            taken_bytes: put_some("detail.reclaim.taken_bytes", taken)?,
            limit_hits: put("detail.reclaim.limit_hits", reclaim.limit_hits)?,
        })
    }

    pub(super) fn get(&self) -> Result<Reclaim, ColumnError> {
        let taken = get_some("detail.reclaim.taken_bytes", self.taken_bytes)?;
        Ok(Reclaim {
            pages_reclaimed: taken.map(Bytes),
            limit_hits: get("detail.reclaim.limit_hits", self.limit_hits)?,
        })
    }
}
