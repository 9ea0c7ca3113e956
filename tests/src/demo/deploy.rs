//! Deploys the product to the simulated account. It uses the project's Terraform module and the
//! real AWS provider. In tests that cannot wait for the provider, API calls create the same names.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::{Account, REGION};
use super::children::Children;
use super::console::Console;
use super::places::Places;

/// The sender and the recipient of the digest.
pub(super) const EMAIL: (&str, &str) = ("ebb@example.org", "team@example.org");

/// The deployment, by the names of the module's outputs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Deployment {
    /// The one bucket.
    pub(super) bucket: String,
    /// The queue of heartbeats; several shards have several queues, separated by commas.
    pub(super) queue_url: String,
    /// The URL of the API.
    pub(super) api_url: String,
    /// The role of a machine with a probe.
    pub(super) node_role_arn: String,
    /// The Lambda function of the sweep; with several shards the one that reports.
    pub(super) sweeper_function_name: String,
}

impl Deployment {
    /// The Lambda functions of all shards; the one that reports comes last.
    pub(super) fn sweepers(&self) -> impl Iterator<Item = String> {
        let shards = self.queue_url.split(',').count();
        (0..shards).rev().map(|shard| match shard {
            0 => self.sweeper_function_name.clone(),
            other => format!("{}-{other}", self.sweeper_function_name),
        })
    }
}

/// How to deploy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// The Terraform module, as for a user.
    Terraform,
    /// API calls, for tests of later parts.
    Calls,
}

/// A deployment in progress.
#[derive(Debug)]
pub(super) struct Deploying {
    means: Means,
    variables: PathBuf,
}

const PROGRAMS: [(&str, &str); 2] = [("sweeper.zip", "ebb-sweeper"), ("tune.zip", "ebb-tune")];

/// Starts to package both programs for Lambda.
///
/// # Errors
/// If one is not built.
pub(super) fn pack(places: &Places, children: &mut Children) -> Result<()> {
    for (package, program) in PROGRAMS {
        let mut pack = places.script("package");
        pack.arg(places.program(program)?)
            .arg(places.work.join(package));
        children.begin(package, pack)?;
    }
    Ok(())
}

/// Waits until both programs are packaged.
///
/// # Errors
/// If one could not be packaged.
pub(super) async fn packed(children: &mut Children) -> Result<()> {
    for (package, _) in PROGRAMS {
        children.wait(package).await?;
    }
    Ok(())
}

impl Deploying {
    /// Starts the deployment with the packages of [`packed`].
    ///
    /// # Errors
    /// If terraform is not installed.
    pub(super) async fn begin(
        (means, shards): (Means, u8),
        places: &Places,
        account: &Account,
        children: &mut Children,
        regions: &[String],
    ) -> Result<Self> {
        let variables = json!({
            "platform_endpoint": account.platform,
            "region": REGION,
            "regions": regions,
            "shards": shards,
            "sweeper_package": places.work.join("sweeper.zip"),
            "tune_package": places.work.join("tune.zip"),
            "policy_toml": fs::read_to_string(places.demo("policy.toml"))?,
            "slack_webhook_url": account.webhook,
            "email_from": EMAIL.0,
            "email_to": [EMAIL.1],
            "extra_environment": {
                "RUST_LOG": "info",
                "EBB_SPOT_ADVISOR_URL": format!("{}/spot-advisor-data.json", account.inventory),
            },
        });
        let path = places.work.join("demo.tfvars.json");
        fs::write(&path, variables.to_string())?;
        let begun = Self {
            means,
            variables: path,
        };
        begun.start(places, children).await?;
        Ok(begun)
    }

    async fn start(&self, places: &Places, children: &mut Children) -> Result<()> {
        if self.means == Means::Calls {
            let mut calls = places.python("deploy.py");
            calls.arg("--variables").arg(&self.variables);
            calls.arg("--out").arg(places.work.join("outputs.json"));
            return children.begin("deploy", calls);
        }
        let mut init = terraform(places);
        init.args(["init", "-input=false", "-no-color"]);
        children.run("terraform-init", init).await?;
        let mut apply = terraform(places);
        apply.args(["apply", "-auto-approve", "-input=false", "-no-color"]);
        apply.arg(format!("-state={}", state(places)));
        apply.arg(format!("-var-file={}", self.variables.display()));
        children.begin("deploy", apply)
    }

    /// Waits for the end and shows the progress at intervals.
    ///
    /// # Errors
    /// With the end of terraform's log.
    pub(super) async fn finish(
        self,
        places: &Places,
        children: &mut Children,
        console: &Console,
    ) -> Result<Deployment> {
        let log = children.log("deploy");
        let made = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.matches("Creation complete").count()
        };
        {
            let ended = children.wait("deploy");
            tokio::pin!(ended);
            let mut every = tokio::time::interval(Duration::from_secs(15));
            every.tick().await;
            loop {
                tokio::select! {
                    ended = &mut ended => break ended?,
                    _ = every.tick() => match made() {
                        0 => console.say("  looking at what is to be made"),
                        some => console.say(format_args!("  {some} resources made so far")),
                    },
                }
            }
        }
        let outputs = places.work.join("outputs.json");
        if self.means == Means::Terraform {
            console.say(format_args!("terraform applied {} resources", made()));
            let mut command = terraform(places);
            command.args(["output", "-json", "-no-color"]);
            command.arg(format!("-state={}", state(places)));
            let output = command.kill_on_drop(true).output().await?;
            fs::write(&outputs, plain(&output.stdout)?.to_string())?;
        }
        let text = fs::read_to_string(&outputs)?;
        serde_json::from_str(&text).context("the outputs of the deployment")
    }
}

fn terraform(places: &Places) -> tokio::process::Command {
    let mut command = places.script("terraform");
    let example = places.repository.join("terraform/examples/simulated");
    command.arg(format!("-chdir={}", example.display()));
    // Kept between runs, so that the provider is downloaded only once.
    command.env("TF_DATA_DIR", places.programs.join("demo/terraform"));
    command.env_remove("AWS_PROFILE");
    command
}

fn state(places: &Places) -> String {
    places.work.join("terraform.tfstate").display().to_string()
}

/// Converts `{"name": {"value": …}}` to `{"name": …}`.
fn plain(outputs: &[u8]) -> Result<Value> {
    let outputs: Value = serde_json::from_slice(outputs).context("terraform's outputs")?;
    let named = outputs
        .as_object()
        .context("terraform's outputs have names")?;
    let values = named
        .iter()
        .map(|(name, output)| (name.clone(), output["value"].clone()));
    Ok(Value::Object(values.collect()))
}
