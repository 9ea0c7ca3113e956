//! `ebb doctor`: the requirements of a scan and of the probe, the result of each check, and a
//! command to fix it. It changes nothing, and it sends test messages only on request.

#[cfg(feature = "aws")]
mod account;
mod check;
mod deployment;
mod test_message;

use anyhow::{Context, Result};
use ebb_telemetry::machine_check::{MachineFacts, check_machine};

use crate::args::{About, DoctorArgs, DoctorFormat};
use crate::deployment::{Target, deployment_of};
use crate::output::{self, Outcome};
use check::{Check, Section, State};

pub(crate) fn run(args: &DoctorArgs) -> Result<Outcome> {
    let mut sections = Vec::new();
    let is_selected = |section| args.about.is_none_or(|about| about == section);
    let place = args.place();
    if args.about == Some(About::Deployment) || place.is_named() || args.send_test {
        let target = deployment_of(&place)?;
        sections.push(Section {
            title: "Deployment",
            checks: crate::runtime::runtime()?.block_on(deployment_checks(args, &target)),
        });
    }
    if is_selected(About::Account) {
        sections.push(Section {
            title: "AWS account (for scans)",
            checks: account_checks(args)?,
        });
    }
    if is_selected(About::Machine) {
        sections.push(Section {
            title: "This machine (for the probe)",
            checks: machine_checks(),
        });
    }
    let text = match args.format {
        DoctorFormat::Table => check::table(&sections, output::terminal_style().colour),
        DoctorFormat::Json => {
            let mut text =
                serde_json::to_string_pretty(&sections).context("failed to write JSON")?;
            text.push('\n');
            text
        }
    };
    output::print(&text)?;
    let mut checks = sections.iter().flat_map(|section| &section.checks);
    Ok(match checks.any(|check| check.state == State::Missing) {
        true => Outcome::Failed,
        false => Outcome::Done,
    })
}

/// The parts of the deployment, then the test messages if they are requested.
async fn deployment_checks(args: &DoctorArgs, target: &Target) -> Vec<Check> {
    let mut checks = deployment::checks(target).await;
    if args.send_test {
        let function = args.function.as_deref();
        checks.extend(test_message::checks(target, function).await);
    }
    checks
}

fn machine_checks() -> Vec<Check> {
    let checks = check_machine(&MachineFacts::read());
    checks.into_iter().map(Check::from).collect()
}

#[cfg(feature = "aws")]
fn account_checks(args: &DoctorArgs) -> Result<Vec<Check>> {
    crate::runtime::runtime()?.block_on(account::checks(&args.account))
}

#[cfg(not(feature = "aws"))]
fn account_checks(_: &DoctorArgs) -> Result<Vec<Check>> {
    let detail = "this program was built without AWS";
    let remedy = format!("{} -- doctor", crate::BUILD_WITH_AWS);
    Ok(vec![
        Check::not_checked("credentials", detail).with_remedy(remedy),
    ])
}
