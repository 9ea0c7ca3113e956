//! The ports of `ebb sweep`, from arguments and environment variables.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_analysis::explain::Explanation;
use ebb_cloud::aws::{AwsConfig, AwsMailer};
use ebb_cloud::cost_export::CostExport;
use ebb_cloud::ports::{Chat, Events, Hooks, Mailer};
use ebb_cloud::store::StoreObjects;
use ebb_ingest::deadline::Deadline;
use ebb_ingest::fold::folder::Limits;
use ebb_notify::digest::{Addresses, Channels};
use ebb_notify::hook_secrets::HookSecrets;
use ebb_notify::retry::Failure;
use ebb_notify::slack::SlackChat;
use ebb_notify::test_message::{self, ChannelTest};
use ebb_notify::webhook::SignedWebhook;
use ebb_sweep::publish::ReportCopies;
use ebb_sweep::retention;
use ebb_sweep::run::{self, Config, Summary};
use ebb_sweep::standalone::{POLICY_KEY, Site, account_without_cloud};
use ebb_telemetry::shard::Shard;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use tracing_subscriber::EnvFilter;

use crate::args::SweepArgs;
use crate::billing;
use crate::deployment::{check_folder, tell_new_folder};
use crate::output::Outcome;

/// Time limit of a sweep, the interval between two sweeps. The next sweep processes the data that
/// remains.
const LONGEST: Duration = Duration::from_secs(300);

/// Opens a place with the settings of its sweeps. The policy is `policy`, or else that of the place.
pub(crate) async fn open(lake: &str, policy: Option<&Path>) -> Result<(Site, Config)> {
    tell_new_folder(lake);
    let site = Site::open(lake).await?;
    let config = Config {
        policy: match policy {
            Some(path) => crate::policy::read(path)?,
            None => run::policy(site.objects(), POLICY_KEY).await?,
        },
        shard: Shard::ONLY,
        limits: Limits::default(),
        interval: None,
        copies: ReportCopies::DatedAndLatest,
        gaps: Vec::new(),
    };
    Ok((site, config))
}

/// Explains the evaluation of one resource from the data of a place. Gaps are on standard error.
pub(crate) async fn explain(
    lake: &str,
    resource: &str,
    policy: Option<&Path>,
) -> Result<Explanation> {
    let (site, config) = open(lake, policy).await?;
    let ports = site.ports(account_without_cloud(None), Channels::default());
    let now = Timestamp::now();
    let (explanation, gaps) = run::explain_resource(&ports, &config, resource, now).await?;
    for gap in &gaps {
        eprintln!("ebb: {}: {}", gap.scope, gap.reason);
    }
    Ok(explanation)
}

/// Writes warnings to standard error, such as a refused message with its reason. `RUST_LOG` chooses
/// others.
pub(super) fn log_warnings() {
    let usual = || EnvFilter::new("warn,aws_config=error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| usual());
    let log = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_env_filter(filter)
        .with_ansi(stderr().is_terminal())
        .with_target(false);
    // Only the first call in a process sets it.
    let _ = log.try_init();
}

/// One sweep; returns its summary. It failed if a part of its data was not stored. A message that did
/// not arrive is sent again by the next sweep.
pub(super) async fn once(args: &SweepArgs) -> Result<(Value, Outcome)> {
    let summary = sweep(args, ReportCopies::DatedAndLatest).await?;
    let outcome = match summary.failures.len() > summary.failed_notifications {
        true => Outcome::Failed,
        false => Outcome::Done,
    };
    Ok((as_json(&summary)?, outcome))
}

fn as_json(summary: &Summary) -> Result<Value> {
    serde_json::to_value(summary).context("failed to write the summary as JSON")
}

async fn sweep(args: &SweepArgs, copies: ReportCopies) -> Result<Summary> {
    let (site, mut config) = open(&args.lake, args.policy.as_deref()).await?;
    config.copies = copies;
    let settings = SweepSettings::read(|name| std::env::var(name).ok())?;
    config.set_pages_url(settings.pages_url.as_deref());
    config.set_interval(settings.interval_minutes.as_deref());
    let channels = SweepChannels::new(&settings).await?;
    let tags = &config.policy.metrics.cost_tags;
    let bill = args.billing.as_deref().or(settings.billing.as_deref());
    let file = bill.map(|file| billing::read(file, tags)).transpose()?;
    // A place that is not valid does not stop the sweep.
    let export = CostExport::of_policy(&config.policy);
    let export = export.unwrap_or_else(|error| {
        config.add_gap("costs.export", &error);
        None
    });
    let account = account_without_cloud(billing::choose(file.as_ref(), export.as_ref())?);
    let start = Timestamp::now();
    let deadline = Deadline::within(start, start.checked_add(LONGEST)?);
    let ports = site.ports(account, channels.all(&settings));
    let mut summary = run::sweep(&ports, &config, &deadline, &Timestamp::now).await?;
    let expired = retention::expire(site.objects(), summary.previous, summary.at).await;
    if let Err(error) = expired {
        summary.failures.push(Failure::new("retention", &error));
    }
    Ok(summary)
}

/// Sweeps at each interval, or later if a sweep takes longer. Only one report in five minutes is
/// stored under its time. The first sweep must succeed: a wrong place or policy is an error of the
/// command line.
pub(super) async fn watch(args: &SweepArgs, seconds: u16) -> Result<Outcome> {
    let mut turns = tokio::time::interval(Duration::from_secs(seconds.into()));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns.tick().await;
    let mut stored_at = Instant::now();
    let mut summary = Ok(sweep(args, ReportCopies::DatedAndLatest).await?);
    loop {
        match summary {
            Ok(summary) => crate::output::print(&format!("{}\n", as_json(&summary)?))?,
            Err(error) => eprintln!("ebb: {}: a sweep failed: {error:#}", Timestamp::now()),
        }
        turns.tick().await;
        let mut copies = ReportCopies::Latest;
        if stored_at.elapsed() >= LONGEST {
            stored_at = Instant::now();
            copies = ReportCopies::DatedAndLatest;
        }
        summary = sweep(args, copies).await;
    }
}

/// A test message to each channel of the environment.
pub(crate) async fn send_test(lake: &str) -> Result<Vec<ChannelTest>> {
    check_folder(lake)?;
    let policy = run::policy(&StoreObjects::open(lake)?, POLICY_KEY).await?;
    let settings = SweepSettings::read(|name| std::env::var(name).ok())?;
    let channels = SweepChannels::new(&settings).await?;
    let channels = channels.all(&settings);
    Ok(test_message::send(&channels, &policy.webhooks, Timestamp::now()).await)
}

/// The channels of the environment.
struct SweepChannels {
    chat: Option<SlackChat>,
    events: Option<SignedWebhook>,
    hooks: Option<HookSecrets>,
    mailer: Option<AwsMailer>,
}

impl SweepChannels {
    async fn new(settings: &SweepSettings) -> Result<Self> {
        let chat = settings.slack.as_deref().map(SlackChat::from_secret);
        let events = settings.events.as_deref().map(SignedWebhook::from_secret);
        let hooks = settings.hooks.as_deref().map(HookSecrets::from_secret);
        Ok(Self {
            chat: chat.transpose().context("invalid EBB_SLACK_WEBHOOK_URL")?,
            events: events.transpose().context("invalid EBB_EVENTS_WEBHOOK")?,
            hooks: hooks.transpose().context("invalid EBB_WEBHOOKS")?,
            mailer: match &settings.email {
                Some(_) => Some(AwsMailer::new(&AwsConfig::load(None).await, None)),
                None => None,
            },
        })
    }

    /// Those that are configured.
    fn all<'a>(&'a self, settings: &'a SweepSettings) -> Channels<'a> {
        let mailer = self.mailer.as_ref().map(|mailer| mailer as &dyn Mailer);
        Channels {
            chat: self.chat.as_ref().map(|chat| chat as &dyn Chat),
            mail: mailer.zip(settings.email.as_ref()),
            topic: None,
            webhook: self.events.as_ref().map(|events| events as &dyn Events),
            hooks: self.hooks.as_ref().map(|hooks| hooks as &dyn Hooks),
        }
    }
}

/// Settings from the environment: the notification channels and the place of the bill.
#[derive(Debug, PartialEq, Eq)]
struct SweepSettings {
    slack: Option<String>,
    events: Option<String>,
    hooks: Option<String>,
    email: Option<Addresses>,
    billing: Option<PathBuf>,
    /// Address of the pages, unless the policy has one.
    pages_url: Option<String>,
    /// Minutes between two sweeps, if a timer runs them.
    interval_minutes: Option<String>,
}

impl SweepSettings {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let set = |name| variable(name).filter(|value| !value.trim().is_empty());
        let to = set("EBB_EMAIL_TO").unwrap_or_default();
        let to = to.split(',').map(|part| part.trim().to_owned());
        let to = to.filter(|part| !part.is_empty()).collect();
        Ok(Self {
            pages_url: set("EBB_PAGES_URL"),
            interval_minutes: set("EBB_INTERVAL_MINUTES"),
            slack: set("EBB_SLACK_WEBHOOK_URL"),
            events: set("EBB_EVENTS_WEBHOOK"),
            hooks: set("EBB_WEBHOOKS"),
            email: Addresses::new(set("EBB_EMAIL_FROM"), to)?,
            billing: set("EBB_BILLING").map(PathBuf::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_where_the_environment_says() {
        let check = |set: &[(&str, &str)], expect: Result<(bool, usize), &str>| {
            let find = |name: &str| set.iter().find(|(n, _)| *n == name);
            let settings =
                SweepSettings::read(|name| find(name).map(|(_, value)| (*value).to_owned()));
            let got = settings.map(|settings| {
                let email = settings.email.map_or(0, |email| email.to.len());
                assert_eq!(
                    settings.billing,
                    find("EBB_BILLING").map(|(_, file)| file.into())
                );
                (settings.slack.is_some(), email)
            });
            match (got, expect) {
                (Ok(got), Ok(expect)) => assert_eq!(got, expect),
                (Err(error), Err(expect)) => assert!(error.to_string().contains(expect)),
                (got, expect) => panic!("{got:?} should be {expect:?}"),
            }
        };
        check(&[], Ok((false, 0)));
        check(&[("EBB_SLACK_WEBHOOK_URL", "https://x")], Ok((true, 0)));
        check(&[("EBB_BILLING", "/srv/ebb/bill.csv")], Ok((false, 0)));
        let both = [("EBB_EMAIL_FROM", "a@x"), ("EBB_EMAIL_TO", "b@x, c@x,")];
        check(&both, Ok((false, 2)));
        check(&both[..1], Err("EBB_EMAIL_TO is not set"));
    }
}
