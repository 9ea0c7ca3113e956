//! `ebb policy`: reads a policy file like the sweep, names its errors, and shows the effective
//! values. `ebb_model::policy` contains the thresholds.

mod diff;
pub(crate) mod threshold_text;

use std::path::Path;

use anyhow::{Context, Result, bail};
use ebb_model::policy::Policy;
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
        PolicyCommand::Show => threshold_text::as_file(&thresholds(&Policy::default())?),
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
    bail!("{}", error.in_file(&shown, &text))
}

fn check(path: &Path) -> Result<String> {
    let policy = read(path)?;
    check_templates(&policy).with_context(|| format!("{} is not valid", path.display()))?;
    let held = thresholds(&policy)?;
    let table = threshold_text::as_table(&held, &thresholds(&Policy::default())?)
        + &threshold_text::entries(&held);
    let exempt = threshold_text::exemptions(&policy.exempt, jiff::Timestamp::now());
    Ok(format!("{} is valid. {table}{exempt}", path.display()))
}

/// A template that fails would be known only when a finding is to be sent.
#[cfg(feature = "sweep")]
fn check_templates(policy: &Policy) -> Result<()> {
    use ebb_notify::webhook_template::WebhookTemplate;

    let mut webhooks = policy.webhooks.iter();
    webhooks.try_for_each(|webhook| Ok(WebhookTemplate::check(webhook)?))
}

#[cfg(not(feature = "sweep"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the same shape as with the feature"
)]
fn check_templates(_: &Policy) -> Result<()> {
    Ok(())
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
