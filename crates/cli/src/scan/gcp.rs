//! A scan of a project of Google Cloud, with the credentials that Google's tools find.

use anyhow::{Result, bail};
use ebb_cloud::gcp::{GcpConfig, GcpInventory, GcpMetrics};
use ebb_domain::policy::Policy;
use ebb_sweep::gather::Account;
use ebb_sweep::scan::{Known, explained};
use jiff::Timestamp;

use super::Scanned;
use super::progress::Progress;
use crate::args::ScanArgs;

pub(super) async fn scan(args: &ScanArgs, project: &str, policy: &Policy) -> Result<Scanned> {
    let mut config = GcpConfig::new(project)?;
    if let Some(endpoint) = &args.gcp_endpoint {
        config = config.at(endpoint);
    }
    let inventory = GcpInventory::new(&config);
    let metrics = GcpMetrics::new(&config);
    let progress = Progress::new(&inventory, args.account.region.len());
    let account = Account {
        inventory: &progress,
        metrics: (!args.no_metrics).then_some(&metrics as _),
        bill: None,
        markets: None,
        regions: &args.account.region,
    };
    let known = Known::default();
    let asked = args.explain.as_deref();
    let scanned = explained(&account, &known, (policy, Timestamp::now()), asked);
    let scanned = progress.show_during(scanned).await;
    if let Some(reason) = progress.nothing_answered() {
        bail!(
            "nothing could be read of project {project}: {reason}\nit takes roles/compute.viewer \
             and roles/monitoring.viewer"
        );
    }
    eprintln!(
        "Project {project}. Cloud Monitoring was asked for {} pages; prices are those that you \
         state.",
        metrics.pages_requested()
    );
    Ok(scanned)
}
