//! A scan of the user's own account with the user's credentials.

use anyhow::{Result, anyhow, bail};
use ebb_catalog::refreshed_prices::Refreshed;
use ebb_cloud::accounts::Accounts;
use ebb_cloud::aws::{
    AwsBill, AwsConfig, AwsInventory, AwsMarkets, AwsMetrics, AwsPrices, Caller, MemberRole,
    MemberScope, SPOT_ADVISOR, enter,
};
use ebb_cloud::cost_export::CostExport;
use ebb_cloud::ports::{
    BillSource, InventorySource, MarketSource, MetricsSource, PRICE_PER_METRIC,
};
use ebb_model::policy::Policy;
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::{Known, explained};
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text;
use jiff::Timestamp;

use super::Scanned;
use super::progress::Progress;
use crate::args::{AccountArgs, ScanArgs};
use crate::aws_credentials::connect;
use crate::catalog;

pub(super) async fn scan(args: &ScanArgs, policy: &Policy) -> Result<Scanned> {
    let of = &args.account;
    let (config, who) = connect(of.region.first(), of.profile.as_deref()).await?;
    let own = (
        AwsInventory::new(&config),
        AwsMetrics::new(&config),
        AwsBill::new(&config),
        AwsMarkets::new(&config, SPOT_ADVISOR),
    );
    let together = enter_others(&args.account, &config, &who).await?;
    let (inventory, metrics, bill, markets): (
        &dyn InventorySource,
        &dyn MetricsSource,
        &dyn BillSource,
        &dyn MarketSource,
    ) = match &together {
        Some(all) => (all, all, all, all),
        None => (&own.0, &own.1, &own.2, &own.3),
    };
    let export = match of.no_bill {
        true => None,
        false => CostExport::of_policy(policy)?.map(|export| export.with_plans(Some(bill))),
    };
    let bill = export
        .as_ref()
        .map_or(bill, |export| export as &dyn BillSource);
    let prices = AwsPrices::new(&config);
    let progress = Progress::new(inventory, args.account.region.len());
    let account = Account {
        inventory: &progress,
        metrics: (!args.no_metrics).then_some(metrics),
        bill: (!args.account.no_bill).then_some(bill),
        markets: Some(markets),
        prices: Some(&prices),
        regions: &args.account.region,
    };
    let known = Known {
        prices: match &args.catalog {
            Some(file) => catalog::read(file)?,
            None => Refreshed::default(),
        },
        ..Known::default()
    };
    let resource = args.explain.as_deref();
    let scanned = explained(&account, &known, (policy, Timestamp::now()), resource);
    let scanned = progress.show_during(scanned).await;
    if let Some(reason) = progress.nothing_answered() {
        bail!(
            "failed to read the account: {reason}\n  `ebb doctor account` shows missing permissions"
        );
    }
    let bill = bill_summary(of, policy);
    let summary = call_summary(&who, args, metrics.metrics_requested(), &bill);
    eprintln!("{summary}");
    Ok(scanned)
}

fn bill_summary(args: &AccountArgs, policy: &Policy) -> String {
    match (args.no_bill, &policy.costs.export) {
        (true, _) => "no Cost Explorer requests".to_owned(),
        (false, Some(place)) => format!("read the bill from {}", safe_text::one_line(place)),
        (false, None) => "requested the bill from Cost Explorer ($0.01 a page)".to_owned(),
    }
}

/// This account and the other accounts in the arguments, combined; `None` without others.
async fn enter_others(
    args: &AccountArgs,
    config: &AwsConfig,
    who: &Caller,
) -> Result<Option<Accounts>> {
    let named = args.accounts.as_deref().unwrap_or_default();
    let scope = MemberScope::parse(named).map_err(|what| anyhow!("--accounts: {what}"))?;
    if scope == MemberScope::Nobody {
        return Ok(None);
    }
    let role = MemberRole {
        name: args.account_role.clone(),
        external_id: None,
    };
    let entered = enter(config, who, &scope, &role).await;
    Ok(Some(entered.together(SPOT_ADVISOR)))
}

/// The caller, and the calls that AWS charges for.
fn call_summary(who: &Caller, args: &ScanArgs, metrics: u64, bill: &str) -> String {
    let account = who.account.as_ref().map(ToString::to_string);
    let price = i64::try_from(metrics)
        .ok()
        .and_then(|metrics| metrics.checked_mul(PRICE_PER_METRIC.micros()))
        .map(|micros| format!(" ({})", UsdExact(Usd::from_micros(micros))));
    let metrics = match args.no_metrics {
        true => "No CloudWatch requests".to_owned(),
        false => format!(
            "Requested {metrics} CloudWatch metrics{}",
            price.unwrap_or_default()
        ),
    };
    format!(
        "Account {} as {}. {metrics}; {bill}.",
        account.as_deref().unwrap_or("unknown"),
        who.arn.as_deref().unwrap_or(&who.user_id),
    )
}

/// A dollar amount with fractions of a cent.
struct UsdExact(Usd);

impl std::fmt::Display for UsdExact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "${}", self.0.to_rounded(5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_cent_are_told() {
        let check = |micros, expect: &str| {
            assert_eq!(UsdExact(Usd::from_micros(micros)).to_string(), expect);
        };
        check(0, "$0.00000");
        check(2_800, "$0.00280");
        check(2_806, "$0.00281");
        check(1_234_560, "$1.23456");
    }
}
