//! Where a command reads its report.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::config_file::{ConfigFile, ConfigPath, config_path};
use super::target::{Target, ValueSource, choose};
use crate::args::{DeploymentArgs, ReportArgs};

/// Where a report comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source<'a> {
    /// A file.
    File(&'a Path),
    /// The built-in demo account.
    Demo,
    /// The newest report of a deployment.
    Deployment(Box<Target>),
    /// Nothing was given, and there is no default.
    Missing,
}

/// The source that the arguments name, otherwise the user's default deployment.
pub(crate) fn source(args: &ReportArgs) -> Result<Source<'_>> {
    Ok(match &args.report {
        Some(path) => Source::File(path),
        None if args.demo => Source::Demo,
        None => match find(&args.deployment)? {
            Some(target) => Source::Deployment(Box::new(target)),
            None => Source::Missing,
        },
    })
}

/// The deployment that the arguments name, otherwise the default one.
pub(crate) fn deployment_of(args: &DeploymentArgs) -> Result<Target> {
    match find(args)? {
        Some(target) => Ok(target),
        None => bail!(
            "no deployment is named\n  give --bucket NAME, --lake URL or --api URL, or store a \
             default: ebb init --bucket NAME"
        ),
    }
}

fn find(args: &DeploymentArgs) -> Result<Option<Target>> {
    let variable = std::env::var("EBB_DEPLOYMENT").ok();
    let variable = variable.filter(|name| !name.is_empty());
    let path = config_path(|name| std::env::var_os(name).map(PathBuf::from));
    let load = || path.as_ref().map_or(Ok(None), ConfigFile::load);
    let place = path.as_ref().map(ConfigPath::as_path);
    let target = choose(args, variable.as_deref(), place, load)?;
    if let Some(target) = &target
        && target.is_default
        && let ValueSource::File { .. } = target.place.source
    {
        eprintln!("ebb: using {}", target.place);
    }
    Ok(target)
}
