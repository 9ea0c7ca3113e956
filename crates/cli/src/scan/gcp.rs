//! A scan of a Google Cloud project with the credentials of Google's tools.

use anyhow::{Result, bail};
use ebb_cloud::gcp::{GcpConfig, GcpInventory, GcpMetrics};
use ebb_cloud::ports::BillSource;
use ebb_model::policy::Policy;
use ebb_model::visibility_gap::Gap;
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::{Known, explained};
use jiff::Timestamp;

use super::Scanned;
use super::progress::Progress;
use crate::args::ScanArgs;
use crate::billing::BillingExport;

/// How to get the price of an instance: Google's price list is not read.
const NO_PRICE: &str = "not known without the bill: --billing FILE reads them from the billing \
     export (`ebb scan --help` says how), and --price-per-hour USD states one";

pub(super) async fn scan(args: &ScanArgs, project: &str, policy: &Policy) -> Result<Scanned> {
    let mut config = GcpConfig::new(project)?;
    if let Some(endpoint) = &args.gcp_endpoint {
        config = config.at(endpoint);
    }
    let billing = args.billing.as_deref();
    let billing = billing.map(|file| BillingExport::read(file, &policy.metrics.cost_tags));
    let billing = billing.transpose()?;
    let inventory = GcpInventory::new(&config);
    let metrics = GcpMetrics::new(&config);
    let progress = Progress::new(&inventory, args.account.region.len());
    let account = Account {
        inventory: &progress,
        metrics: (!args.no_metrics).then_some(&metrics as _),
        bill: billing.as_ref().map(|billing| billing as &dyn BillSource),
        markets: None,
        prices: None,
        regions: &args.account.region,
    };
    let known = Known::default();
    let asked = args.explain.as_deref();
    let scanned = explained(&account, &known, (policy, Timestamp::now()), asked);
    let (mut report, explanation) = progress.show_during(scanned).await;
    if let Some(reason) = progress.nothing_answered() {
        bail!(
            "nothing could be read of project {project}: {reason}\nit takes roles/compute.viewer \
             and roles/monitoring.viewer"
        );
    }
    if billing.is_none() && report.nodes.iter().any(|node| node.per_hour.is_none()) {
        report
            .gaps
            .push(Gap::new(format!("{project}: prices"), NO_PRICE.to_owned()));
    }
    eprintln!(
        "Project {project}. Cloud Monitoring was asked for {} pages; prices are those {}.",
        metrics.pages_requested(),
        match billing {
            Some(_) => "of the billing export, else those that you state",
            None => "that you state",
        }
    );
    Ok((report, explanation))
}
