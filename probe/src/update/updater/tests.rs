//! Updates with a service that only remembers what it runs. A run may end after each step, as if the
//! machine lost power; the next run must end with a program that runs.

use std::cell::RefCell;

use super::*;

const OLD: &str = "old";
const NEW: &str = "new";

/// A service whose daemon is healthy if its program is one of `good`.
struct FakeService<'a> {
    program: &'a Path,
    good: &'static [&'static str],
    /// Programs that start at all.
    starts: &'static [&'static str],
    reaches_manifest: bool,
    /// The program of the running daemon.
    running: RefCell<String>,
    restarts: RefCell<usize>,
}

impl Service for FakeService<'_> {
    fn program(&self) -> anyhow::Result<Option<PathBuf>> {
        Ok(Some(self.program.to_owned()))
    }

    fn try_version(&self, program: &Path, _: ProbeVersion) -> anyhow::Result<()> {
        let text = fs::read_to_string(program)?;
        ensure!(self.starts.contains(&&*text), "{text} does not start");
        Ok(())
    }

    fn try_update(&self, _: &Path) -> anyhow::Result<()> {
        ensure!(self.reaches_manifest, "no route to host");
        Ok(())
    }

    fn restart(&self) -> anyhow::Result<()> {
        let text = fs::read_to_string(self.program)?;
        *self.restarts.borrow_mut() += 1;
        let is_good = self.good.contains(&&*text);
        self.running.replace(text);
        ensure!(is_good, "it ended");
        Ok(())
    }
}

fn version() -> ProbeVersion {
    "0.3.0".parse().expect("a version")
}

/// A machine with the old program, and the files of an update.
struct Machine {
    folder: tempfile::TempDir,
    files: ProgramFiles,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ProgramFiles::new(folder.path().join("ebb-probe"));
        fs::write(&files.program, OLD).expect("written");
        Self { folder, files }
    }

    fn service(&self, good: &'static [&'static str]) -> FakeService<'_> {
        FakeService {
            program: &self.files.program,
            good,
            starts: &[OLD, NEW],
            reaches_manifest: true,
            running: RefCell::new(OLD.to_owned()),
            restarts: RefCell::new(0),
        }
    }

    fn updater<'a>(&self, service: &'a FakeService<'_>) -> Updater<'a> {
        Updater {
            files: self.files.clone(),
            folder: self.folder.path().to_owned(),
            service,
        }
    }

    fn state(&self) -> StoredState {
        StoredState::read(self.folder.path()).expect("it is read")
    }

    fn program(&self) -> String {
        fs::read_to_string(&self.files.program).expect("there is always a program")
    }
}

#[test]
fn a_good_version_is_installed_and_the_one_before_is_kept() {
    let machine = Machine::new();
    let service = machine.service(&[OLD, NEW]);
    let updater = machine.updater(&service);
    assert_eq!(updater.end_interrupted().expect("nothing"), None);
    let done = updater
        .install(version(), NEW.as_bytes())
        .expect("it works");
    assert_eq!(done, "version 0.3.0 is installed and runs");
    assert_eq!(
        (&*machine.program(), &**service.running.borrow()),
        (NEW, NEW)
    );
    let previous = machine.files.read_previous().expect("it is read");
    assert_eq!(previous.as_deref(), Some(OLD.as_bytes()));
    assert_eq!(machine.state(), StoredState::default());
    assert_eq!(updater.end_interrupted().expect("nothing"), None);
}

#[test]
fn a_version_that_does_not_start_is_never_swapped_in() {
    let machine = Machine::new();
    let mut service = machine.service(&[OLD, NEW]);
    service.starts = &[OLD];
    let updater = machine.updater(&service);
    let refused = updater.install(version(), NEW.as_bytes());
    let refused = refused.expect_err("it does not start").to_string();
    assert!(refused.contains("nothing was installed"), "{refused}");
    assert_eq!(machine.program(), OLD);
    assert_eq!(*service.restarts.borrow(), 0);
    assert_eq!(machine.state().failed, [version()]);
    assert!(!machine.files.new.exists());
}

#[test]
fn a_version_that_cannot_read_the_manifest_is_tried_again_later() {
    let machine = Machine::new();
    let mut service = machine.service(&[OLD, NEW]);
    service.reaches_manifest = false;
    let updater = machine.updater(&service);
    let refused = updater.install(version(), NEW.as_bytes());
    assert!(refused.is_err());
    assert_eq!(
        (machine.program(), machine.files.new.exists()),
        (OLD.to_owned(), false)
    );
    assert_eq!(machine.state(), StoredState::default());
}

#[test]
fn a_version_that_does_not_stay_up_is_taken_back_and_remembered() {
    let machine = Machine::new();
    let service = machine.service(&[OLD]);
    let updater = machine.updater(&service);
    let failed = updater.install(version(), NEW.as_bytes());
    let failed = failed.expect_err("it fails").to_string();
    assert_eq!(
        failed,
        "version 0.3.0 failed; the version before it runs again"
    );
    assert_eq!(
        (&*machine.program(), &**service.running.borrow()),
        (OLD, OLD)
    );
    let state = machine.state();
    assert_eq!((state.failed, state.ongoing), (vec![version()], None));
}

/// The steps of an update, one after another. Each may be the last of a run.
fn steps(updater: &Updater<'_>, until: usize) {
    let last = |step: usize| until < step;
    updater.files.stage(NEW.as_bytes()).expect("staged");
    if last(1) {
        return;
    }
    updater
        .prepare(version(), NEW.as_bytes())
        .expect("prepared");
    if last(2) {
        return;
    }
    updater.files.swap().expect("swapped");
    if last(3) {
        return;
    }
    let proven = updater.service.restart();
    if last(4) || proven.is_ok() {
        return;
    }
    let mut state = StoredState::read(&updater.folder).expect("it is read");
    state.fail(version());
    state.write(&updater.folder).expect("written");
    if last(5) {
        return;
    }
    updater.files.restore().expect("restored");
}

#[test]
fn after_a_run_that_ends_at_any_step_the_next_one_ends_with_a_program_that_runs() {
    for (good, expect) in [(&[OLD, NEW][..], NEW), (&[OLD][..], OLD)] {
        for until in 0..=5 {
            let machine = Machine::new();
            let service = machine.service(good);
            let updater = machine.updater(&service);
            steps(&updater, until);
            let between = machine.program();
            assert!([OLD, NEW].contains(&&*between), "{between:?} after {until}");
            // The machine boots again, so the service runs what is there.
            let _ = service.restart();
            let ended = updater.end_interrupted();
            // Before the swap, the old program is still installed, so the next run starts from the beginning.
            let swapped = until >= 2;
            let expect = if swapped { expect } else { OLD };
            assert_eq!(machine.program(), expect, "after {until}: {ended:?}");
            assert_eq!(&**service.running.borrow(), expect, "after {until}");
            assert!(!machine.files.new.exists(), "after {until}");
            let state = machine.state();
            assert_eq!(state.ongoing, None, "after {until}");
            let is_bad = swapped && expect == OLD;
            assert_eq!(state.failed.contains(&version()), is_bad, "after {until}");
            // Nothing is left to end.
            let restarts = *service.restarts.borrow();
            assert_eq!(updater.end_interrupted().expect("nothing"), None);
            assert_eq!(*service.restarts.borrow(), restarts);
        }
    }
}

#[test]
fn a_changed_copy_of_the_program_before_is_not_put_back() {
    let machine = Machine::new();
    let service = machine.service(&[OLD]);
    let updater = machine.updater(&service);
    updater
        .prepare(version(), NEW.as_bytes())
        .expect("prepared");
    updater.files.swap().expect("swapped");
    fs::write(&machine.files.previous, "other").expect("written");
    let failed = updater.prove().expect_err("it fails").to_string();
    assert!(failed.contains("install one by hand"), "{failed}");
    assert_eq!(machine.program(), NEW);
}

#[test]
fn one_updater_runs_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = lock(folder.path()).expect("it is locked");
    assert!(first.is_some());
    assert!(lock(folder.path()).expect("it answers").is_none());
    drop(first);
    assert!(lock(folder.path()).expect("it is free").is_some());
}
