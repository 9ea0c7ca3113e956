//! `ebb explain`: why a resource is reported or not, from a deployment or the demo account.

use anyhow::Result;
use ebb_report::zone::Zone;

use crate::args::{ExplainFormat, ExplanationArgs, Format};
use crate::deployment::{self, DatedExplanation, Place, Target};
use crate::output::{self, Outcome};
use crate::{explanation, scan, sweep};

pub(crate) fn run(args: &ExplanationArgs, zone: &Zone) -> Result<Outcome> {
    let runtime = crate::runtime::runtime()?;
    let explained = match args.demo {
        true => runtime.block_on(scan::explain_demo(&args.name))?.into(),
        false => {
            let target = deployment::deployment_of(&args.deployment)?;
            runtime.block_on(of_deployment(&target, &args.name))?
        }
    };
    let columns = output::terminal_style().columns;
    let format = match args.format {
        ExplainFormat::Table => Format::Table,
        ExplainFormat::Json => Format::Json,
    };
    let text = explanation::written(&explained, (format, zone), columns)?;
    output::write(&text, None)?;
    Ok(Outcome::Done)
}

/// Explains one resource: as the last sweep did, or, for a lake, with its present data.
pub(crate) async fn of_deployment(target: &Target, name: &str) -> Result<DatedExplanation> {
    let deployment = deployment::open(target).await?;
    let Place::Lake(url) = &target.place.value else {
        return deployment::stored_explanation(&deployment, name).await;
    };
    let policy = target.policy.as_ref().map(|policy| policy.value.as_path());
    // A policy on this machine can have other thresholds than the last sweep.
    let stored = match policy {
        Some(_) => None,
        None => Some(deployment::stored_explanation(&deployment, name).await),
    };
    match stored {
        Some(Ok(stored)) => Ok(stored),
        // Without the lake, only the last sweep can explain.
        Some(Err(error)) if cfg!(not(feature = "sweep")) => Err(error),
        _ => Ok(sweep::explain(url, name, policy).await?.into()),
    }
}
