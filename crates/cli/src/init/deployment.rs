//! `ebb init` with a deployment: checks that it answers, and stores it in the user's file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::Table;

use crate::args::{DeploymentArgs, InitDeployment};
use crate::deployment::{self, ConfigFile, Target, config_path, with_entry};
use crate::output::Outcome;
use crate::text_file;

/// The most bytes of the file.
const MAX_BYTES: u64 = 1 << 20;

pub(super) fn run(args: &InitDeployment, force: bool) -> Result<Outcome> {
    let path = config_path(|name| std::env::var_os(name).map(PathBuf::from));
    let path = path.context("no place for the file of deployments\n  set HOME or EBB_CONFIG")?;
    let named = DeploymentArgs {
        bucket: args.bucket.clone(),
        lake: args.lake.clone(),
        api: args.api.clone(),
        deployment: None,
        region: args.region.clone(),
        profile: args.profile.clone(),
    };
    let target = deployment::deployment_of(&named)?;
    // The file is checked first: a request may take long.
    let path = path.as_path();
    let text = new_text(path, args, force)?;
    if let Some(policy) = &args.policy {
        crate::policy::read(policy)?;
    }
    let state = crate::runtime::runtime()?.block_on(check(&target))?;
    write(path, &text)?;
    eprintln!("Stored [{}] in {}: {state}.", args.name, path.display());
    Ok(Outcome::Done)
}

/// Asks the deployment for its newest report, and describes the result.
async fn check(target: &Target) -> Result<String> {
    let at = deployment::open(target).await?;
    Ok(match at.report_time().await? {
        Some(at) => format!("{}, newest report of {at}", target.place),
        None => format!("{}, no report yet", target.place),
    })
}

/// The text of the file with the new entry.
fn new_text(path: &Path, args: &InitDeployment, force: bool) -> Result<String> {
    let text = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        _ => text_file::read(path, MAX_BYTES)?,
    };
    let is_there = ConfigFile::parse(path, &text)?.has(&args.name);
    if is_there && !force {
        bail!(
            "{} has the deployment '{}' already\n  replace it with --force, or give another --name",
            path.display(),
            args.name
        );
    }
    with_entry(path, &text, &args.name, &entry(args)?)
}

fn entry(args: &InitDeployment) -> Result<Table> {
    // The file may be read from any folder.
    let policy = args.policy.as_deref().map(std::path::absolute).transpose();
    let policy = policy.context("failed to get the working directory")?;
    let values = [
        ("bucket", args.bucket.clone()),
        ("lake", args.lake.clone()),
        ("api", args.api.as_ref().map(|api| api.as_str().to_owned())),
        ("region", args.region.as_ref().map(ToString::to_string)),
        ("aws_profile", args.profile.clone()),
        ("policy", policy.map(|path| path.display().to_string())),
    ];
    let set = |(key, value): (&str, Option<String>)| Some((key.to_owned(), value?.into()));
    Ok(values.into_iter().filter_map(set).collect())
}

/// Replaces the file as a whole, so that a crash leaves the old or the new one. Only the user may
/// read it, because names of buckets and hosts are internal.
fn write(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("failed to write {}", path.display());
    // A link to a file elsewhere stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut folders = DirBuilder::new();
    let made = folders.recursive(true).mode(0o700).create(folder);
    made.with_context(failed)?;
    let fresh = path.with_extension(format!("toml.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(&fresh)
        .and_then(|mut file: File| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&fresh, &path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written.with_context(failed)
}
