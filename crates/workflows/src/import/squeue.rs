//! Jobs that run now, as squeue prints them with `|` between the columns. The output contains no
//! resource use, so it only names jobs, with their requested cores.
//!
//! Source: "squeue", Slurm's manual. Jobs that wait have an expected start or none.

use ebb_model::task_record::TaskKey;
use ebb_telemetry::step::Requested;

use super::job_name::{JobName, nextflow_hash};
use super::quantity::{cores, is_local, slurm_time, whole};
use super::record::{BadLine, Column, Header, Record, Row};
use super::{ImportError, Note, Parser, Sink};

/// Reads the output of squeue.
pub(super) struct Queue {
    header: String,
    width: usize,
    job: Column,
    state: Column,
    start: Column,
    work_dir: Column,
    name: Column,
    cores: Column,
    nodes: Column,
    comment: Column,
}

impl Queue {
    /// Whether this first line is from squeue with columns that `|` separates.
    pub(super) fn is_header(line: &str) -> bool {
        let header = Header::parse(line, '|');
        header.has("JOBID") && header.len() > 1
    }

    pub(super) fn from_header(line: &str) -> Result<Self, ImportError> {
        let header = Header::parse(line, '|');
        for column in ["JOBID", "STATE", "START_TIME", "NAME"] {
            if !header.has(column) {
                let remedy = "use squeue -o '%A|%T|%S|%Z|%C|%D|%j|%k'";
                return Err(ImportError::MissingColumn { column, remedy });
            }
        }
        let at = |name| header.column(name);
        Ok(Self {
            header: line.to_owned(),
            width: header.len(),
            job: at("JOBID"),
            state: at("STATE"),
            start: at("START_TIME"),
            work_dir: at("WORK_DIR"),
            name: at("NAME"),
            cores: at("CPUS"),
            nodes: at("NODES"),
            comment: at("COMMENT"),
        })
    }

    /// `None` for a job that waits.
    fn record(&self, row: &Row<'_>) -> Result<Option<Record>, BadLine> {
        if row.required(self.state)? == "PENDING" {
            return Ok(None);
        }
        let id = row.required(self.job)?;
        let whole_name = row.required(self.name)?;
        let name = JobName::parse(whole_name, row.text(self.comment));
        let name = name.map_err(|problem| row.bad(self.name, problem))?;
        let hash = row.text(self.work_dir).and_then(nextflow_hash);
        let nodes = row.get(self.nodes, whole)?;
        Ok(Some(Record {
            step: name.step,
            name_form: name.form,
            name: Some(whole_name.to_owned()),
            keys: TaskKey::slurm_job(id).into_iter().chain(hash).collect(),
            engine_run: name.run,
            sample: name.sample,
            attempt: name.attempt,
            started: row.get(self.start, slurm_time)?,
            is_local_time: row.text(self.start).is_some_and(is_local),
            nodes: nodes.and_then(|n| u64::try_from(n).ok()).unwrap_or(1),
            requested: Requested {
                // Without the number of nodes, the cores of one node are unknown.
                cores: row.get(self.cores, cores)?.filter(|_| nodes.is_some()),
                memory: None,
            },
            ..Record::default()
        }))
    }
}

impl Parser for Queue {
    fn line(&mut self, number: u64, line: &str, sink: &mut Sink<'_>) {
        if line == self.header {
            return;
        }
        match self.record(&Row::of_columns(number, line, '|', self.width)) {
            Ok(None) => {}
            Ok(Some(record)) => sink.take_open(number, record),
            Err(bad) => sink.take(number, Err(bad)),
        }
    }

    fn finish(&mut self, _: &mut Sink<'_>) {}

    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}
