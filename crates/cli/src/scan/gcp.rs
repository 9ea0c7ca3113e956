//! A scan of a Google Cloud project with the credentials of Google's tools.

use anyhow::{Result, bail};
use ebb_cloud::cost_export::CostExport;
use ebb_cloud::gcp::{GcpConfig, GcpInventory, GcpMetrics};
use ebb_model::policy::Policy;
use ebb_model::visibility_gap::Gap;
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::{Known, explained};
use jiff::Timestamp;

use super::Scanned;
use super::progress::Progress;
use crate::args::ScanArgs;
use crate::billing;

/// How to get the price of an instance: Google's price list is not read.
const NO_PRICE: &str = "unknown without the bill; add --billing FILE with the billing export (see `ebb scan --help`) \
     or --price-per-hour USD";

pub(super) async fn scan(args: &ScanArgs, project: &str, policy: &Policy) -> Result<Scanned> {
    let mut config = GcpConfig::new(project)?;
    if let Some(endpoint) = &args.gcp_endpoint {
        config = config.at(endpoint);
    }
    let bill = args.billing.as_deref();
    let bill = bill.map(|file| billing::read(file, &policy.metrics.cost_tags));
    let file = bill.transpose()?;
    let export = CostExport::of_policy(policy)?;
    let bill = billing::choose(file.as_ref(), export.as_ref())?;
    let inventory = GcpInventory::new(&config);
    let metrics = GcpMetrics::new(&config);
    let progress = Progress::new(&inventory, args.account.region.len());
    let account = Account {
        inventory: &progress,
        metrics: (!args.no_metrics).then_some(&metrics as _),
        bill,
        markets: None,
        prices: None,
        regions: &args.account.region,
    };
    let known = Known::default();
    let resource = args.explain.as_deref();
    let scanned = explained(&account, &known, (policy, Timestamp::now()), resource);
    let (mut report, explanation) = progress.show_during(scanned).await;
    if let Some(reason) = progress.nothing_answered() {
        bail!(
            "failed to read project {project}: {reason}\n  required roles: roles/compute.viewer \
             and roles/monitoring.viewer"
        );
    }
    if bill.is_none() && report.nodes.iter().any(|node| node.per_hour.is_none()) {
        report
            .gaps
            .push(Gap::new(format!("{project}: prices"), NO_PRICE.to_owned()));
    }
    eprintln!(
        "Project {project}. Requested {} pages from Cloud Monitoring; prices are {}.",
        metrics.pages_requested(),
        match bill {
            Some(_) => "from the billing export, else from --price-per-hour or the policy",
            None => "from --price-per-hour or the policy",
        }
    );
    Ok((report, explanation))
}
