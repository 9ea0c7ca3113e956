//! The real ports of a sweep, from the deployment's settings.

use anyhow::{Context, Result};
use ebb_cloud::accounts::Accounts;
use ebb_cloud::aws::{
    self, AwsBill, AwsConfig, AwsInventory, AwsMailer, AwsMarkets, AwsMetrics, AwsObjects,
    AwsPrices, AwsQueue, AwsSecrets, AwsTopic, MemberScope,
};
use ebb_cloud::cost_export::CostExport;
use ebb_cloud::ports::{BillSource, Chat, Events, Hooks, Mailer, PriceSource, Topic};
use ebb_ingest::deadline::Deadline;
use ebb_ingest::fold::folder::Limits;
use ebb_lake::Lake;
use ebb_notify::digest::Channels;
use ebb_sweep::collect::account::Account;
use ebb_sweep::publish::ReportCopies;
use ebb_sweep::run::{self, Config, Ports, Summary};
use ebb_telemetry::identity::Region;
use jiff::Timestamp;

use crate::secret::{SecretEvents, SecretHooks, SecretSlack};
use crate::settings::Settings;

/// One sweep over AWS.
pub(crate) async fn sweep(settings: &Settings, deadline: &Deadline) -> Result<Summary> {
    let aws = AwsConfig::load(None).await;
    let objects = AwsObjects::new(&aws, settings.bucket.as_str());
    let mut config = Config {
        policy: run::policy(&objects, &settings.policy_key).await?,
        shard: settings.shard,
        limits: Limits::default(),
        interval: None,
        copies: ReportCopies::DatedAndLatest,
        gaps: Vec::new(),
    };
    config.set_pages_url(settings.pages_url.as_deref());
    config.set_interval(settings.interval_minutes.as_deref());
    let lake = Lake::open(&format!("s3://{}/lake", settings.bucket)).await;
    let chat = settings.slack_secret_arn.as_ref().map(|arn| SecretSlack {
        secrets: AwsSecrets::new(&aws),
        arn: arn.clone(),
    });
    let events = settings.events_secret_arn.as_ref();
    let events = events.map(|arn| SecretEvents::new(AwsSecrets::new(&aws), arn));
    let hooks = settings.webhooks_secret_arn.as_ref();
    let hooks = hooks.map(|arn| SecretHooks::new(AwsSecrets::new(&aws), arn));
    let mailer = AwsMailer::new(&aws, settings.email_contact_list.clone());
    let topic = settings.topic_arn.as_ref();
    let topic = topic.map(|arn| AwsTopic::new(&aws, arn));
    let own = OwnAccount::new(&aws, settings);
    let members = member_accounts(&aws, settings).await?;
    let mut account = own.with(members.as_ref(), &settings.regions);
    // A place that is not valid does not stop the sweep.
    let export = CostExport::of_policy(&config.policy);
    let export = export.unwrap_or_else(|error| {
        config.add_gap("costs.export", &error);
        None
    });
    let export = export.map(|export| export.with_plans(account.bill));
    if config.policy.costs.export.is_some() {
        account.bill = export.as_ref().map(|export| export as &dyn BillSource);
    }
    let ports = Ports {
        account,
        queue: &AwsQueue::new(&aws, settings.queue_url.as_str()),
        dead_letters: &AwsQueue::new(&aws, settings.dead_letter_queue_url.as_str()),
        objects: &objects,
        truth: &lake.context("failed to open the lake in the bucket")?,
        channels: Channels {
            chat: chat.as_ref().map(|chat| chat as &dyn Chat),
            mail: settings
                .email
                .as_ref()
                .map(|addresses| (&mailer as &dyn Mailer, addresses)),
            topic: topic.as_ref().map(|topic| topic as &dyn Topic),
            webhook: events.as_ref().map(|events| events as &dyn Events),
            hooks: hooks.as_ref().map(|hooks| hooks as &dyn Hooks),
        },
    };
    Ok(run::sweep(&ports, &config, deadline, &Timestamp::now).await?)
}

/// The sources of the account of the deployment.
struct OwnAccount {
    inventory: AwsInventory,
    metrics: AwsMetrics,
    bill: AwsBill,
    markets: AwsMarkets,
    /// The same for all accounts.
    prices: AwsPrices,
}

impl OwnAccount {
    fn new(aws: &AwsConfig, settings: &Settings) -> Self {
        Self {
            inventory: AwsInventory::new(aws),
            metrics: AwsMetrics::new(aws),
            bill: AwsBill::new(aws),
            markets: AwsMarkets::new(aws, &settings.spot_advisor_url),
            prices: AwsPrices::new(aws),
        }
    }

    /// This account, or all accounts if others are configured.
    fn with<'a>(&'a self, members: Option<&'a Accounts>, regions: &'a [Region]) -> Account<'a> {
        let prices = Some(&self.prices as &dyn PriceSource);
        match members {
            Some(all) => Account {
                inventory: all,
                metrics: Some(all),
                bill: Some(all),
                markets: Some(all),
                prices,
                regions,
            },
            None => Account {
                inventory: &self.inventory,
                metrics: Some(&self.metrics),
                bill: Some(&self.bill),
                markets: Some(&self.markets),
                prices,
                regions,
            },
        }
    }
}

/// All accounts that the settings name; `None` if they name no other account.
async fn member_accounts(aws: &AwsConfig, settings: &Settings) -> Result<Option<Accounts>> {
    if settings.beside == MemberScope::Nobody {
        return Ok(None);
    }
    let who = aws::caller(aws)
        .await
        .context("failed to identify the account")?;
    let entered = aws::enter(aws, &who, &settings.beside, &settings.member_role).await;
    Ok(Some(entered.together(&settings.spot_advisor_url)))
}
