//! `ebb pages`: a link with which a browser opens the pages of a deployment.

use anyhow::{Result, bail};

use crate::args::PagesArgs;
use crate::deployment::{self, Deployment, Place};
use crate::output::{self, Outcome};

pub(crate) fn run(args: &PagesArgs) -> Result<Outcome> {
    let target = deployment::deployment_of(&args.of)?;
    let Place::Api(address) = &target.place.value else {
        bail!(
            "{} has no address for a browser\n  give --api URL, or show its pages on this machine: \
             ebb serve",
            target.place
        );
    };
    let path = crate::runtime::runtime()?.block_on(async {
        match deployment::open(&target).await? {
            Deployment::Api(api) => api.page_link().await,
            Deployment::Stored(_) => bail!("{} is no API", target.place),
        }
    })?;
    let address = address.as_str().trim_end_matches('/');
    output::print(&format!("{address}{path}\n"))?;
    Ok(Outcome::Done)
}
