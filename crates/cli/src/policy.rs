//! `ebb policy`: reads a policy file like the sweep, names its errors, and shows the effective
//! values. `ebb_model::policy` contains the thresholds.

mod diff;
mod place;
pub(crate) mod words;

use std::path::Path;

use anyhow::{Context, Result, bail};
use ebb_model::policy::Policy;
use ebb_model::policy::error::PolicyError;
use ebb_model::policy::schema::policy_schema;
use toml::Table;

use crate::args::{PolicyArgs, PolicyCommand};
use crate::output::{self, Outcome};
use crate::text_file;

/// The most bytes of a policy; the largest ones in use have some kilobytes.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &PolicyArgs) -> Result<Outcome> {
    let text = match &args.command {
        PolicyCommand::Check { file } => check(file)?,
        PolicyCommand::Diff { old, new } => differ(old, new.as_deref())?,
        PolicyCommand::Schema => schema()?,
        PolicyCommand::Show => words::as_file(&thresholds(&Policy::default())?),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Reads a policy file; an error names file, line and field.
pub(crate) fn read(path: &Path) -> Result<Policy> {
    let shown = path.display();
    let text = text_file::read(path, MAX_BYTES)?;
    let error = match Policy::parse(&text) {
        Ok(policy) => return Ok(policy),
        Err(error) => error,
    };
    let (place, problem) = match &error {
        PolicyError::Toml(toml) => {
            let place = toml.span().map(|span| place::of_span(&text, &span));
            (place, toml.message().to_owned())
        }
        PolicyError::Value {
            key,
            value,
            problem,
        } => {
            let place = place::of_key(&text, key);
            (place, format!("value {value} {problem}"))
        }
        PolicyError::Quiet { key, problem } => (place::of_key(&text, key), problem.clone()),
        PolicyError::Exemption { index, .. } => {
            (place::of_entry(&text, "exempt", *index), error.to_string())
        }
        PolicyError::Price { index, .. } => {
            (place::of_entry(&text, "prices", *index), error.to_string())
        }
        PolicyError::Budget { index, .. } => {
            (place::of_entry(&text, "budgets", *index), error.to_string())
        }
        PolicyError::Webhook { index, .. } => (
            place::of_entry(&text, "webhooks", *index),
            error.to_string(),
        ),
        PolicyError::Route { index, .. } => {
            (place::of_entry(&text, "route", *index), error.to_string())
        }
    };
    match place {
        Some(place) => bail!("{shown}:{place}: {problem}"),
        None => bail!("{shown}: {error}"),
    }
}

fn check(path: &Path) -> Result<String> {
    let policy = read(path)?;
    let table = words::as_table(&thresholds(&policy)?, &thresholds(&Policy::default())?);
    let exempt = words::exemptions(&policy.exempt, jiff::Timestamp::now());
    Ok(format!("{} is valid. {table}{exempt}", path.display()))
}

/// The differences from the defaults to `old`, or from `old` to `new`.
fn differ(old: &Path, new: Option<&Path>) -> Result<String> {
    let (old, new) = match new {
        Some(new) => (read(old)?, read(new)?),
        None => (Policy::default(), read(old)?),
    };
    Ok(diff::between(&thresholds(&old)?, &thresholds(&new)?))
}

/// The JSON Schema of a policy file.
fn schema() -> Result<String> {
    let text = serde_json::to_string_pretty(&policy_schema());
    text.map(|text| text + "\n")
        .context("the schema cannot be written as JSON")
}

fn thresholds(policy: &Policy) -> Result<Table> {
    Table::try_from(policy).context("failed to write TOML")
}

#[cfg(test)]
mod tests;
