//! Asks Snakemake for the rules of a Snakefile, in its own Python and within limits.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use ebb_telemetry::safe_text::{clip, one_line};
use ebb_workflows::import::snakefile::{PROGRAM, Snakefile};

use crate::args::SnakemakeArgs;

/// Time limit of the Python program. A large workflow with many modules takes a few seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Time after which this program kills the Python program, in addition to its own limit.
const GRACE: Duration = Duration::from_secs(5);

/// A workflow of a thousand rules takes 200 KB.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// The most bytes of Snakemake's messages that are kept; the last lines name the error.
const MAX_STDERR_BYTES: usize = 16 << 10;

/// The most lines that are shown, and the most characters of each.
const SHOWN_LINES: usize = 12;
const SHOWN_CHARS: usize = 300;

/// The rules of a Snakefile.
pub(crate) fn read(snakefile: &Path, run: &SnakemakeArgs) -> Result<Snakefile> {
    let shown = snakefile.display();
    if snakefile.is_dir() {
        let inner = snakefile.join("Snakefile");
        match inner.is_file() {
            true => bail!("{shown} is a folder\n  use {}", inner.display()),
            false => bail!("{shown} is a folder"),
        }
    }
    ensure!(snakefile.is_file(), "{shown} does not exist");
    let program = match &run.snakemake {
        Some(program) => program.clone(),
        None => on_path("snakemake").context(
            "snakemake is not on the PATH\n  add --snakemake FILE, or activate its environment",
        )?,
    };
    let python = interpreter(&program).with_context(|| {
        let program = program.display();
        format!("failed to find the Python interpreter of {program} (--snakemake PYTHON names it)")
    })?;
    let answer = ask(&python, snakefile, run)
        .with_context(|| format!("failed to read the rules of {shown}"))?;
    Snakefile::read(&answer).with_context(|| format!("failed to read the rules of {shown}"))
}

/// The options of a run, as arguments of the Python program.
fn options(run: &SnakemakeArgs) -> Vec<OsString> {
    let profiles = run.profile.iter().map(|dir| ("--profile=", dir));
    let workflow = run.workflow_profile.iter();
    let workflow = workflow.map(|dir| ("--workflow-profile=", dir));
    let configs = run.configfile.iter().map(|file| ("--configfile=", file));
    let all = profiles.chain(workflow).chain(configs);
    all.map(|(option, path)| {
        let mut argument = OsString::from(option);
        argument.push(path);
        argument
    })
    .collect()
}

/// The output of the Python program.
fn ask(python: &Path, snakefile: &Path, run: &SnakemakeArgs) -> Result<Vec<u8>> {
    let started = Command::new(python)
        .arg("-c")
        .arg(PROGRAM)
        .arg(snakefile)
        .arg(LIMIT.as_secs().to_string())
        .args(options(run))
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.with_context(|| format!("failed to run {}", python.display()))?;
    let begun = Instant::now();
    let tail = Tail::follow(&mut child);
    let stdout = child.stdout.take().context("no standard output")?;
    let answer = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut bytes);
        read.map(|_| bytes)
    });
    let status = wait(&mut child, begun)?;
    let answer = answer
        .join()
        .map_err(|_| anyhow!("failed to read the standard output"))??;
    if status.is_none_or(|status| status.code().is_none()) && begun.elapsed() >= LIMIT {
        bail!("timed out after {} s{}", LIMIT.as_secs(), tail.shown());
    }
    ensure!(
        answer.len() as u64 <= MAX_ANSWER_BYTES,
        "the list of rules has more than {} MiB",
        MAX_ANSWER_BYTES >> 20
    );
    let is_well = status.is_some_and(|status| status.success());
    ensure!(
        is_well && !answer.is_empty(),
        "Snakemake cannot parse it{}",
        tail.shown()
    );
    Ok(answer)
}

/// Waits for the end of the Python program, which has its own time limit; `None` if it had to be
/// killed.
fn wait(child: &mut Child, begun: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= LIMIT + GRACE {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The last bytes that a program writes to standard error. A child process may keep standard error
/// open, so nothing waits for its end.
struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    fn follow(child: &mut Child) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut stderr) = child.stderr.take() {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                let mut part = [0; 4096];
                while let Ok(read) = stderr.read(&mut part)
                    && read > 0
                {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&part[..read]);
                    let older = kept.len().saturating_sub(MAX_STDERR_BYTES);
                    kept.drain(..older);
                }
            });
        }
        Self(kept)
    }

    /// The kept bytes as lines under a message.
    fn shown(&self) -> String {
        // The reader may still receive the last bytes.
        thread::sleep(Duration::from_millis(100));
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown(&String::from_utf8_lossy(&kept))
    }
}

fn shown(stderr: &str) -> String {
    // Lines about the Python program itself are left out.
    let is_relevant = |line: &&str| !line.trim().is_empty() && !line.contains("File \"<string>\"");
    let lines: Vec<&str> = stderr.lines().filter(is_relevant).collect();
    let begin = lines.len().saturating_sub(SHOWN_LINES);
    let lines = lines[begin..].iter();
    let lines = lines.map(|line| format!("\n  {}", clip(&one_line(line), SHOWN_CHARS)));
    lines.collect()
}

/// A program in the `PATH`.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let files = env::split_paths(&folders).map(|folder| folder.join(name));
    files.into_iter().find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let known = fs::metadata(file);
    known.is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0)
}

/// The Python of a program: from its first lines, or next to it. If the program is a Python, it is
/// used itself.
fn interpreter(program: &Path) -> Result<PathBuf> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("python") {
        return Ok(program.to_owned());
    }
    let mut head = Vec::new();
    let file = File::open(program).context("failed to open the program")?;
    file.take(4096).read_to_end(&mut head)?;
    let first = match Interpreter::from_head(&String::from_utf8_lossy(&head)) {
        Some(Interpreter::Path(path)) => Some(PathBuf::from(path)),
        Some(Interpreter::Name(name)) => on_path(&name),
        None => None,
    };
    let folder = program.canonicalize().ok();
    let folder = folder.as_deref().and_then(Path::parent);
    let in_folder = ["python3", "python"].map(|name| folder.map(|folder| folder.join(name)));
    let mut all = first.into_iter().chain(in_folder.into_iter().flatten());
    let found = all.find(|python| is_program(python));
    found
        .context("the first line names no Python interpreter, and there is none in the same folder")
}

/// The interpreter of a script.
#[derive(Debug, PartialEq, Eq)]
enum Interpreter {
    Path(String),
    /// A name to find in the `PATH`.
    Name(String),
}

impl Interpreter {
    /// Reads the first lines: `#!/path/python3` or `#!/usr/bin/env python3`. If the path is too
    /// long for the kernel, installers write `#!/bin/sh` and then `'''exec' "/path/python3" "$0"
    /// "$@"`.
    fn from_head(head: &str) -> Option<Self> {
        let mut lines = head.lines();
        let mut words = lines.next()?.strip_prefix("#!")?.split_whitespace();
        let program = words.next()?;
        let called = program.rsplit('/').next().unwrap_or(program);
        if called == "env" {
            let name = words.find(|word| !word.starts_with('-'))?;
            return name
                .starts_with("python")
                .then(|| Self::Name(name.to_owned()));
        }
        if called.starts_with("python") {
            return Some(Self::Path(program.to_owned()));
        }
        let rest = lines.next()?.strip_prefix("'''exec' ")?;
        let path = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => rest.split(' ').next()?,
        };
        Some(Self::Path(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_of_a_program_is_in_its_first_lines() {
        let path = |path: &str| Some(Interpreter::Path(path.to_owned()));
        let check = |head: &str, expect: Option<Interpreter>| {
            assert_eq!(Interpreter::from_head(head), expect, "{head}");
        };
        check(
            "#!/opt/v/bin/python3.11\nimport re\n",
            path("/opt/v/bin/python3.11"),
        );
        check("#!/opt/v/bin/python -s\n", path("/opt/v/bin/python"));
        let name = Some(Interpreter::Name("python3".to_owned()));
        check("#!/usr/bin/env python3\n", name);
        check(
            "#!/usr/bin/env -S python3 -s\n",
            Some(Interpreter::Name("python3".to_owned())),
        );
        let long = "#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\" \"$@\"\n' '''\n";
        check(long, path("/a b/bin/python"));
        let long = "#!/bin/sh\n'''exec' /ab/bin/python \"$0\" \"$@\"\n' '''\n";
        check(long, path("/ab/bin/python"));
        check("#!/bin/bash\nmodule load snakemake\n", None);
        check("\u{7f}ELF", None);
        check("", None);
    }

    #[test]
    fn options_of_a_run_are_passed_on() {
        let run = SnakemakeArgs {
            profile: vec!["a".into(), "-b".into()],
            workflow_profile: Some("none".into()),
            configfile: vec!["c d.yaml".into()],
            ..SnakemakeArgs::default()
        };
        let expect = [
            "--profile=a",
            "--profile=-b",
            "--workflow-profile=none",
            "--configfile=c d.yaml",
        ];
        assert_eq!(options(&run), expect);
        assert!(options(&SnakemakeArgs::default()).is_empty());
    }

    #[test]
    fn what_it_says_is_shown_bounded_and_without_control_characters() {
        assert_eq!(shown(""), "");
        assert_eq!(
            shown("a\u{1b}[31m\n\n  File \"<string>\", line 5, in main\nb\n"),
            "\n  a\u{FFFD}[31m\n  b"
        );
        let many = "x\n".repeat(100);
        assert_eq!(shown(&many).lines().count(), SHOWN_LINES + 1);
        assert!(shown(&"y".repeat(10_000)).chars().count() <= SHOWN_CHARS + 3);
    }
}
