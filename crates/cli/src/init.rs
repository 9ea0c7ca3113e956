//! `ebb init`: stores a deployment in the user's file, or writes the configuration with which an
//! engine reports the names of its tasks.

mod deployment;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use ebb_workflows::engine_setup::{EngineSetup, Executor};

use crate::args::{InitArgs, SetupEngine, SetupExecutor};
use crate::output::{self, Outcome};

pub(crate) fn run(args: &InitArgs) -> Result<Outcome> {
    let Some(engine) = args.engine else {
        return deployment::run(&args.deployment, args.force);
    };
    if args.force && args.write.is_none() {
        eprintln!("ebb: with --engine, --force needs --write FILE");
        return Ok(Outcome::Usage);
    }
    let Some(setup) = setup(engine, args.executor) else {
        eprintln!("ebb: --executor is an option of --engine nextflow only");
        return Ok(Outcome::Usage);
    };
    let lines = setup.lines();
    match &args.write {
        None => output::write(&lines, None)?,
        Some(path) if args.force => output::write(&lines, Some(path))?,
        Some(path) => write_new(path, &lines)?,
    }
    Ok(Outcome::Done)
}

/// `None` if the engine has no such option.
fn setup(engine: SetupEngine, executor: Option<SetupExecutor>) -> Option<EngineSetup> {
    let executor = executor.map(|executor| match executor {
        SetupExecutor::Local => Executor::Local,
        SetupExecutor::Slurm => Executor::Slurm,
        SetupExecutor::AwsBatch => Executor::AwsBatch,
        SetupExecutor::K8s => Executor::K8s,
        SetupExecutor::GoogleBatch => Executor::GoogleBatch,
    });
    match (engine, executor) {
        (SetupEngine::Nextflow, executor) => Some(EngineSetup::Nextflow(executor?)),
        (SetupEngine::Snakemake, None) => Some(EngineSetup::Snakemake),
        (SetupEngine::Slurm, None) => Some(EngineSetup::Slurm),
        (SetupEngine::Snakemake | SetupEngine::Slurm, Some(_)) => None,
    }
}

fn write_new(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("failed to write {}", path.display());
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "failed to write {}: the file exists\n  replace it with --force, or name another file",
            path.display()
        ),
        file => file.with_context(failed)?,
    };
    file.write_all(text.as_bytes()).with_context(failed)?;
    eprintln!("Wrote {}.", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn read(words: &[&str]) -> Result<InitArgs, clap::Error> {
        let words = ["ebb", "init"].iter().chain(words);
        match Args::try_parse_from(words)?.command {
            Command::Init(init) => Ok(init),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_nextflow_has_executors_and_it_needs_one() {
        let check = |words: &[&str], expect: Option<Outcome>| {
            let outcome = read(words)
                .ok()
                .map(|args| run(&args).expect("it is written"));
            assert_eq!(outcome, expect, "{words:?}");
        };
        check(&["--engine", "nextflow"], None);
        check(&[], None);
        check(&["--engine", "slurm", "--force"], Some(Outcome::Usage));
        check(&["--engine", "slurm", "--bucket", "b"], None);
        check(&["--engine", "slurm", "--region", "eu-central-1"], None);
        let usage = Some(Outcome::Usage);
        check(&["--engine", "slurm", "--executor", "k8s"], usage);
        let done = Some(Outcome::Done);
        check(&["--engine", "snakemake"], done);
        for executor in ["local", "slurm", "awsbatch", "k8s", "google-batch"] {
            check(&["--engine", "nextflow", "--executor", executor], done);
        }
    }

    #[test]
    fn a_file_is_replaced_only_if_the_user_wants_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ebb.config");
        let path_text = path.to_str().expect("a path");
        let words = ["--engine", "slurm", "--write", path_text];
        run(&read(&words).expect("arguments")).expect("a new file");
        std::fs::write(&path, "mine").expect("it is written");
        let error = run(&read(&words).expect("arguments")).expect_err("it exists");
        assert!(error.to_string().contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "mine");
        let forced = [&words[..], &["--force"]].concat();
        run(&read(&forced).expect("arguments")).expect("it is replaced");
        let text = std::fs::read_to_string(&path).expect("a file");
        assert!(text.contains("sacct"), "{text}");
    }
}
