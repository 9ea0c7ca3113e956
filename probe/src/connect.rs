//! The identity of this run, with its sink and its rules.

#[cfg(feature = "aws")]
mod known_sender;

use ebb_cloud::store::{ObjectQueue, StoreObjects};
use ebb_telemetry::identity::NodeId;

use crate::config::Config;
use crate::label_rules::source::RulesSource;
use crate::node;
use crate::probe_run::ProbeRun;
use crate::push::{CloudSink, Sink, StepRoute};

/// The identity and connections of a run of the probe.
pub struct Connected {
    /// The identity that is sent with records.
    pub run: ProbeRun,
    /// The identity that the cloud attests: `aws:userid`.
    pub sender: String,
    /// The destination of records.
    pub sink: Box<dyn Sink>,
    /// The source of rules.
    pub rules: RulesSource,
}

/// Which identity to use if AWS does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// None: connecting fails.
    None,
    /// The identity that AWS attested to an earlier run since the machine booted.
    KnownSender,
}

/// Connects to the queue and bucket of the deployment, as the identity that AWS returns.
/// Credentials are found in the default order of the SDK.
#[cfg(feature = "aws")]
async fn to_cloud(config: &Config, fallback: Fallback) -> anyhow::Result<Connected> {
    use anyhow::Context;
    use ebb_cloud::aws::{AwsConfig, AwsObjects, AwsQueue, caller};
    use ebb_telemetry::identity::attested;

    let cloud = config.cloud()?;
    let aws = AwsConfig::load(config.region.as_ref()).await;
    let answer = caller(&aws).await.map(|caller| caller.user_id);
    let sender = match fallback {
        Fallback::None => answer,
        Fallback::KnownSender => {
            known_sender::sender_or_known(answer, &config.state_dir(), &node::boot_id()?)
        }
    };
    let sender = sender.context(
        "failed to get the identity of this machine from AWS; give it a role with the node policy \
         (`terraform output node_instance_profile`, or attach `node_policy_arn`), and in a private \
         subnet a way to STS: NAT, the endpoint `sts` or https_proxy",
    )?;
    let attested = attested(&sender).context(
        "the credentials do not belong to a role session; run the probe with the role of the \
         machine, not with a user's credentials",
    )?;
    let objects = AwsObjects::new(&aws, cloud.bucket);
    let queue_url = cloud.queue_of(&attested.node);
    Ok(Connected {
        run: this_run(attested.node)?,
        sender,
        rules: rules(config, || RulesSource::Bucket(Box::new(objects.clone()))),
        sink: Box::new(CloudSink {
            queue: Box::new(AwsQueue::new(&aws, queue_url)),
            objects: Box::new(objects),
            step_route: StepRoute::Queue,
        }),
    })
}

#[cfg(not(feature = "aws"))]
async fn to_cloud(_: &Config, _: Fallback) -> anyhow::Result<Connected> {
    anyhow::bail!("this probe was built without AWS; set a destination with --sink")
}

/// Connects to the configured destination.
pub async fn connect(config: &Config, fallback: Fallback) -> anyhow::Result<Connected> {
    match &config.place {
        Some(place) => match place.strip_prefix(COLLECTOR) {
            Some(address) => to_collector(config, address),
            None => to_place(config, place),
        },
        None => to_cloud(config, fallback).await,
    }
}

/// The prefix of a collector's address.
const COLLECTOR: &str = "otlp+";

/// Connects to an OpenTelemetry collector, which receives metrics.
#[cfg(feature = "otlp")]
fn to_collector(config: &Config, address: &str) -> anyhow::Result<Connected> {
    use anyhow::Context;

    use crate::push::OtlpCollector;

    let node = node::own_identity()?;
    let collector = OtlpCollector::at(address).context(
        "invalid collector address; use otlp+https://HOST:4318, or otlp+http://127.0.0.1:4318 for this machine",
    )?;
    Ok(Connected {
        sender: node.to_string(),
        run: this_run(node)?,
        rules: rules(config, || RulesSource::BuiltIn),
        sink: Box::new(collector),
    })
}

#[cfg(not(feature = "otlp"))]
fn to_collector(_: &Config, _: &str) -> anyhow::Result<Connected> {
    anyhow::bail!("this probe was built without OTLP; set another destination with --sink")
}

/// Connects to an object store, under the name of the machine. The bytes are the same as for the
/// cloud.
fn to_place(config: &Config, place: &str) -> anyhow::Result<Connected> {
    let node = node::own_identity()?;
    let sender = format!("AROALOCAL:{node}");
    let objects = StoreObjects::open(place)?;
    Ok(Connected {
        run: this_run(node)?,
        rules: rules(config, || RulesSource::Bucket(Box::new(objects.clone()))),
        sink: Box::new(CloudSink {
            queue: Box::new(ObjectQueue::heartbeats(objects.clone(), sender.as_str())),
            objects: Box::new(objects),
            // A message is an object too.
            step_route: StepRoute::Objects,
        }),
        sender,
    })
}

fn rules(config: &Config, otherwise: impl FnOnce() -> RulesSource) -> RulesSource {
    match &config.rules {
        Some(path) => RulesSource::File(path.clone()),
        None => otherwise(),
    }
}

/// A new run of the probe on `node`.
pub fn this_run(node: NodeId) -> anyhow::Result<ProbeRun> {
    Ok(ProbeRun {
        node,
        boot: node::boot_id()?,
        probe_start: node::probe_start()?,
    })
}
