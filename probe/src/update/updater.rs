//! One run of the updater: end what an earlier run began, then read, verify, decide and install.

use std::env::consts::ARCH;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use ebb_telemetry::probe_version::ProbeVersion;

use super::decision::{Decision, Situation, decide};
use super::manifest::{
    MAX_MANIFEST_BYTES, MAX_PROGRAM_BYTES, MAX_SIGNATURE_BYTES, Manifest, sha256,
};
use super::program_files::ProgramFiles;
use super::release_source::ReleaseSource;
use super::service::{Service, SystemdService};
use super::stored_state::{OngoingUpdate, StoredState};
use super::trust;
use crate::config::{Config, UpdateSettings};
use crate::durable::make_own_folder;

/// The folder of `StateDirectory=` in the unit of the updater.
const USUAL_FOLDER: &str = "/var/lib/ebb-update";

/// The variable with that folder.
///
/// Source: `systemd.exec(5)`.
const STATE_FOLDER: &str = "STATE_DIRECTORY";

/// Options of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateOptions {
    /// Whether an older version may be installed.
    pub allow_downgrade: bool,
    /// Whether only the decision is printed.
    pub dry_run: bool,
}

/// Runs the updater and returns what it did, as one line.
///
/// # Errors
/// If an update is not possible or failed. A complete program stays in place.
pub async fn run(path: &Path, options: UpdateOptions) -> anyhow::Result<String> {
    let config = Config::read(path)?;
    let Some(settings) = config.update.clone() else {
        return Ok(format!(
            "updates are off: {} has no section [update]",
            path.display()
        ));
    };
    trust::check(path)?;
    let folder = std::env::var_os(STATE_FOLDER).unwrap_or_else(|| USUAL_FOLDER.into());
    let folder = Path::new(&folder);
    if options.dry_run {
        // Without the failures of earlier runs, which only root can read.
        let state = StoredState::read(folder).unwrap_or_default();
        let release = Release::read(&config, &settings).await?;
        return Ok(release.decide(&state, options)?.to_string());
    }
    let service = SystemdService { config: path };
    let Some(program) = service.program()? else {
        return Ok("the service of the probe is stopped, so nothing is updated".to_owned());
    };
    let own = std::env::current_exe().context("failed to find the own program")?;
    ensure!(
        fs::canonicalize(&program).ok() == Some(own.clone()),
        "the service runs {}, and this is {}; run that one",
        program.display(),
        own.display()
    );
    make_own_folder(folder)?;
    let Some(_lock) = lock(folder)? else {
        return Ok("another update is running".to_owned());
    };
    let updater = Updater {
        files: ProgramFiles::new(own),
        folder: folder.to_owned(),
        service: &service,
    };
    if let Some(ended) = updater.end_interrupted()? {
        // The program may be another one now, so the next run decides.
        return Ok(ended);
    }
    let release = Release::read(&config, &settings).await?;
    let state = StoredState::read(folder)?;
    let decision = release.decide(&state, options)?;
    let Decision::Install(program) = decision else {
        return Ok(decision.to_string());
    };
    let limit = program.bytes.min(MAX_PROGRAM_BYTES);
    let bytes = release.source.read(&program.file, limit).await?;
    program.verify(&bytes)?;
    updater.install(release.manifest.version, &bytes)
}

/// One updater at a time. `None` if another one runs.
fn lock(folder: &Path) -> anyhow::Result<Option<File>> {
    let file =
        File::open(folder).with_context(|| format!("failed to open {}", folder.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("failed to lock {}", folder.display()))
        }
    }
}

/// A verified manifest and the folder of its programs.
struct Release {
    manifest: Manifest,
    source: ReleaseSource,
}

impl Release {
    async fn read(config: &Config, settings: &UpdateSettings) -> anyhow::Result<Self> {
        let source = ReleaseSource::open(config, &settings.manifest).await?;
        let name = source.manifest.clone();
        let signature = format!("{name}.minisig");
        let signature = source.read(&signature, MAX_SIGNATURE_BYTES).await?;
        let bytes = source.read(&name, MAX_MANIFEST_BYTES).await?;
        Ok(Self {
            manifest: Manifest::open(&bytes, &signature, &settings.public_key)?,
            source,
        })
    }

    fn decide(&self, state: &StoredState, options: UpdateOptions) -> anyhow::Result<Decision<'_>> {
        let version = ProbeVersion::of_this_program();
        let version = version.context("this program has no version of three numbers")?;
        let situation = Situation {
            version,
            architecture: ARCH,
            machine: &machine()?,
            failed: &state.failed,
            allow_downgrade: options.allow_downgrade,
        };
        Ok(decide(&self.manifest, &situation))
    }
}

/// The identity of this machine. Machines of one image may have the same id, but other names.
fn machine() -> anyhow::Result<String> {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let machine = format!("{} {name}", id.trim());
    ensure!(
        !machine.trim().is_empty(),
        "this machine has neither an id nor a name"
    );
    Ok(machine)
}

/// The program of this machine and its service.
struct Updater<'a> {
    files: ProgramFiles,
    /// The folder of the state.
    folder: PathBuf,
    service: &'a dyn Service,
}

impl Updater<'_> {
    /// Installs a verified program, or brings back the one before.
    fn install(&self, version: ProbeVersion, bytes: &[u8]) -> anyhow::Result<String> {
        self.prepare(version, bytes)?;
        self.files.swap()?;
        self.prove()
    }

    /// Writes the program next to the present one and tries it. The service does not notice.
    fn prepare(&self, version: ProbeVersion, bytes: &[u8]) -> anyhow::Result<()> {
        self.files.stage(bytes)?;
        if let Err(error) = self.service.try_version(&self.files.new, version) {
            self.files.discard()?;
            let mut state = StoredState::read(&self.folder)?;
            state.fail(version);
            state.write(&self.folder)?;
            let context = format!("version {version} does not run here; nothing was installed");
            return Err(error.context(context));
        }
        if let Err(error) = self.service.try_update(&self.files.new) {
            // The place of the manifest may be out of reach for a moment, so it is tried again.
            self.files.discard()?;
            let context =
                format!("version {version} cannot read the manifest; nothing was installed");
            return Err(error.context(context));
        }
        let before = self.files.read()?;
        self.files.keep(&before)?;
        let mut state = StoredState::read(&self.folder)?;
        state.ongoing = Some(OngoingUpdate {
            version,
            sha256: sha256(bytes),
            sha256_before: sha256(&before),
        });
        state.write(&self.folder)?;
        Ok(())
    }

    /// Restarts the service with the new program, and goes back if it does not stay up.
    fn prove(&self) -> anyhow::Result<String> {
        let mut state = StoredState::read(&self.folder)?;
        let ongoing = state.ongoing.take().context("no update has begun")?;
        let version = ongoing.version;
        if !state.failed.contains(&version) {
            match self.service.restart() {
                Ok(()) => {
                    state.write(&self.folder)?;
                    return Ok(format!("version {version} is installed and runs"));
                }
                Err(error) => {
                    tracing::error!(%version, error = format!("{error:#}"), "the new version fails");
                    // Stored first: a run that ends what follows must not try the version again.
                    state.fail(version);
                    state.ongoing = Some(ongoing.clone());
                    state.write(&self.folder)?;
                }
            }
        }
        self.go_back(&ongoing)?;
        self.end_failed(state, version)
    }

    fn go_back(&self, ongoing: &OngoingUpdate) -> anyhow::Result<()> {
        let previous = self.files.read_previous()?;
        let is_it = previous.is_some_and(|bytes| sha256(&bytes) == ongoing.sha256_before);
        ensure!(
            is_it,
            "version {} failed, and {} is not the program before it; install one by hand",
            ongoing.version,
            self.files.previous.display()
        );
        Ok(self.files.restore()?)
    }

    /// Restarts the service with the program before, and forgets the update.
    fn end_failed(&self, mut state: StoredState, version: ProbeVersion) -> anyhow::Result<String> {
        let restarted = self.service.restart();
        state.ongoing = None;
        state.write(&self.folder)?;
        match restarted {
            Ok(()) => bail!("version {version} failed; the version before it runs again"),
            Err(error) => Err(error.context(format!(
                "version {version} failed, and the version before it is installed but does not run"
            ))),
        }
    }

    /// Ends an update that an earlier run began; `None` if there is none.
    fn end_interrupted(&self) -> anyhow::Result<Option<String>> {
        let mut state = StoredState::read(&self.folder)?;
        let Some(ongoing) = state.ongoing.clone() else {
            self.files.discard()?;
            return Ok(None);
        };
        let version = ongoing.version;
        tracing::warn!(%version, "an update was interrupted");
        if sha256(&self.files.read()?) == ongoing.sha256 {
            return self.prove().map(Some);
        }
        self.files.discard()?;
        if state.failed.contains(&version) {
            // The service may still run the program that failed.
            return self.end_failed(state, version).map(Some);
        }
        state.ongoing = None;
        state.write(&self.folder)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
