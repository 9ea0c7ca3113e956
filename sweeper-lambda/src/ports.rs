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
use ebb_notify::test_message::{self, TestAnswer};
use ebb_sweep::collect::account::Account;
use ebb_sweep::publish::ReportCopies;
use ebb_sweep::run::{self, Config, Ports, Summary};
use ebb_telemetry::identity::{AccountId, Region};
use jiff::Timestamp;

use crate::secret::{SecretEvents, SecretHooks, SecretSlack};
use crate::settings::Settings;

/// One sweep over AWS. The inventory names the account, so that accounts that are no longer
/// configured are not part of it.
pub(crate) async fn sweep(
    settings: &Settings,
    deadline: &Deadline,
    account: Option<AccountId>,
) -> Result<Summary> {
    let aws = AwsConfig::load(None).await;
    let aws = match account {
        Some(account) => aws.for_account(account),
        None => aws,
    };
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
    let channels = OwnChannels::new(&aws, settings);
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
        event_log: &lake.context("failed to open the lake in the bucket")?,
        channels: channels.all(settings),
    };
    Ok(run::sweep(&ports, &config, deadline, &Timestamp::now).await?)
}

/// A test message to each channel.
pub(crate) async fn send_test(settings: &Settings) -> Result<TestAnswer> {
    let aws = AwsConfig::load(None).await;
    let objects = AwsObjects::new(&aws, settings.bucket.as_str());
    let policy = run::policy(&objects, &settings.policy_key).await?;
    let channels = OwnChannels::new(&aws, settings);
    let channels = channels.all(settings);
    let sent = test_message::send(&channels, &policy.webhooks, Timestamp::now());
    Ok(TestAnswer {
        channel_tests: sent.await,
    })
}

/// The channels of the deployment.
struct OwnChannels {
    chat: Option<SecretSlack>,
    mailer: AwsMailer,
    topic: Option<AwsTopic>,
    events: Option<SecretEvents>,
    hooks: Option<SecretHooks>,
}

impl OwnChannels {
    fn new(aws: &AwsConfig, settings: &Settings) -> Self {
        let secrets = || AwsSecrets::new(aws);
        let chat = settings.slack_secret_arn.as_ref().map(|arn| SecretSlack {
            secrets: secrets(),
            arn: arn.clone(),
        });
        let events = settings.events_secret_arn.as_ref();
        let hooks = settings.webhooks_secret_arn.as_ref();
        let topic = settings.topic_arn.as_ref();
        Self {
            chat,
            mailer: AwsMailer::new(aws, settings.email_contact_list.clone()),
            topic: topic.map(|arn| AwsTopic::new(aws, arn)),
            events: events.map(|arn| SecretEvents::new(secrets(), arn)),
            hooks: hooks.map(|arn| SecretHooks::new(secrets(), arn)),
        }
    }

    /// Those that are configured.
    fn all<'a>(&'a self, settings: &'a Settings) -> Channels<'a> {
        let addresses = settings.email.as_ref();
        Channels {
            chat: self.chat.as_ref().map(|chat| chat as &dyn Chat),
            mail: addresses.map(|addresses| (&self.mailer as &dyn Mailer, addresses)),
            topic: self.topic.as_ref().map(|topic| topic as &dyn Topic),
            webhook: self.events.as_ref().map(|events| events as &dyn Events),
            hooks: self.hooks.as_ref().map(|hooks| hooks as &dyn Hooks),
        }
    }
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
    if settings.members == MemberScope::Nobody {
        return Ok(None);
    }
    let who = aws::caller(aws)
        .await
        .context("failed to identify the account")?;
    let entered = aws::enter(aws, &who, &settings.members, &settings.member_role).await;
    Ok(Some(entered.together(&settings.spot_advisor_url)))
}
