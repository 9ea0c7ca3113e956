//! The real ports of a sweep, from the deployment's settings.

use anyhow::{Context, Result};
use ebb_cloud::aws::{
    self, AwsBill, AwsConfig, AwsInventory, AwsMailer, AwsMarkets, AwsMetrics, AwsObjects,
    AwsPrices, AwsQueue, AwsSecrets, AwsTopic, MemberScope,
};
use ebb_cloud::ports::{Chat, Events, Mailer, Topic};
use ebb_ingest::deadline::Deadline;
use ebb_ingest::fold::folder::Limits;
use ebb_lake::Lake;
use ebb_notify::digest::Channels;
use ebb_sweep::collect::account::Account;
use ebb_sweep::run::{self, Config, Ports, Summary};
use jiff::Timestamp;

use crate::secret::{SecretEvents, SecretSlack};
use crate::settings::Settings;

/// One sweep over AWS.
pub(crate) async fn sweep(settings: &Settings, deadline: &Deadline) -> Result<Summary> {
    let aws = AwsConfig::load(None).await;
    let objects = AwsObjects::new(&aws, settings.bucket.as_str());
    let config = Config {
        policy: run::policy(&objects, &settings.policy_key).await?,
        shard: settings.shard,
        limits: Limits::default(),
    };
    let lake = Lake::open(&format!("s3://{}/lake", settings.bucket)).await;
    let chat = settings.slack_secret_arn.as_ref().map(|arn| SecretSlack {
        secrets: AwsSecrets::new(&aws),
        arn: arn.clone(),
    });
    let events = settings.events_secret_arn.as_ref();
    let events = events.map(|arn| SecretEvents::new(AwsSecrets::new(&aws), arn));
    let mailer = AwsMailer::new(&aws, settings.email_contact_list.clone());
    let topic = settings.topic_arn.as_ref();
    let topic = topic.map(|arn| AwsTopic::new(&aws, arn));
    let own = (
        AwsInventory::new(&aws),
        AwsMetrics::new(&aws),
        AwsBill::new(&aws),
        AwsMarkets::new(&aws, &settings.spot_advisor_url),
    );
    // The same for all accounts.
    let prices = AwsPrices::new(&aws);
    let together = match &settings.beside {
        MemberScope::Nobody => None,
        beside => {
            let who = aws::caller(&aws)
                .await
                .context("failed to identify the account")?;
            let entered = aws::enter(&aws, &who, beside, &settings.member_role).await;
            Some(entered.together(&settings.spot_advisor_url))
        }
    };
    let account = match &together {
        Some(all) => Account {
            inventory: all,
            metrics: Some(all),
            bill: Some(all),
            markets: Some(all),
            prices: Some(&prices),
            regions: &settings.regions,
        },
        None => Account {
            inventory: &own.0,
            metrics: Some(&own.1),
            bill: Some(&own.2),
            markets: Some(&own.3),
            prices: Some(&prices),
            regions: &settings.regions,
        },
    };
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
        },
    };
    Ok(run::sweep(&ports, &config, deadline, &Timestamp::now).await?)
}
