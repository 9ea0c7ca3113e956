//! `ebb explain`: why a resource is reported or not, from a deployment or the demo account.

use anyhow::{Result, bail};
use ebb_analysis::explain::Explanation;

use crate::args::{ExplainFormat, ExplanationArgs, Format};
use crate::deployment::{self, Place, Target};
use crate::output::{self, Outcome};
use crate::{explanation, scan, sweep};

pub(crate) fn run(args: &ExplanationArgs) -> Result<Outcome> {
    let runtime = crate::runtime::runtime()?;
    let explained = match args.demo {
        true => runtime.block_on(scan::explain_demo(&args.name))?,
        false => {
            let target = deployment::deployment_of(&args.deployment)?;
            runtime.block_on(of_deployment(&target, &args.name))?
        }
    };
    let columns = output::look().columns;
    let format = match args.format {
        ExplainFormat::Table => Format::Table,
        ExplainFormat::Json => Format::Json,
    };
    let text = explanation::written(&explained, format, columns)?;
    output::write(&text, None)?;
    Ok(Outcome::Done)
}

/// Explains one resource with the data of a deployment.
pub(crate) async fn of_deployment(target: &Target, name: &str) -> Result<Explanation> {
    match &target.place.value {
        Place::Lake(url) => {
            deployment::check_folder(url)?;
            let policy = target.policy.as_ref().map(|policy| policy.value.as_path());
            sweep::explain(url, name, policy).await
        }
        Place::Bucket(_) | Place::Api(_) => bail!(
            "an explanation from {} is not possible yet\n  give --lake URL, or explain a new scan \
             of the account: ebb scan --explain {name}",
            target.place
        ),
    }
}
