//! The simulated account: two simulators that together represent AWS, a receiver in place of Slack,
//! and the data of the seed.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use tokio::time::Instant;

use super::children::Children;
use super::http::Request;
use super::places::Places;
use crate::world::World;

/// Python starts slowly on a machine that also compiles.
const START: Duration = Duration::from_secs(90);

/// The region of the deployment.
pub(super) const REGION: &str = "us-east-1";

/// The role that the deployment creates for machines with a probe.
const NODE_ROLE: &str = "arn:aws:iam::123456789012:role/ebb-node";

/// The addresses of the account.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// Storage, queues, Lambda functions, API, secrets and mail: MiniStack.
    pub(super) platform: String,
    /// Machines, jobs, metrics and the bill: moto.
    pub(super) inventory: String,
    /// In place of Slack's incoming webhook.
    pub(super) webhook: String,
}

impl Account {
    /// Starts the servers on free ports and waits until they answer.
    ///
    /// # Errors
    /// If one does not start, with its log.
    pub(super) async fn start(places: &Places, children: &mut Children) -> Result<Self> {
        let [platform, inventory, slack] = free_ports()?;
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let account = Self {
            platform: url(platform),
            inventory: url(inventory),
            webhook: format!("{}/services/demo", url(slack)),
        };
        let mut moto = places.python("moto_server.py");
        moto.args(["--port", &inventory.to_string()]);
        let mut ministack = places.python("ministack_server.py");
        ministack.args([
            "--port",
            &platform.to_string(),
            "--moto",
            &account.inventory,
        ]);
        let mut receiver = places.python("slack_receiver.py");
        receiver.args(["--port", &slack.to_string(), "--out"]);
        receiver.arg(places.work.join("slack"));
        children.start("moto", moto)?;
        children.start("ministack", ministack)?;
        children.start("slack", receiver)?;
        let ready = [
            format!("{}/moto-api/data.json", account.inventory),
            format!("{}/_ministack/health", account.platform),
            url(slack),
        ];
        for url in ready {
            answers(children, &url).await?;
        }
        Ok(account)
    }

    /// Fills the account with the world of a seed.
    ///
    /// # Errors
    /// If a simulator refuses.
    pub(super) async fn fill(
        &self,
        places: &Places,
        children: &mut Children,
        seed: u64,
        waste: Waste,
    ) -> Result<World> {
        let mut fill = places.python("seed.py");
        // Their sessions become valid with the role, which the deployment creates.
        fill.args(["--seed", &seed.to_string(), "--node-role", NODE_ROLE]);
        fill.args(["--moto", &self.inventory, "--ministack", &self.platform]);
        fill.arg("--out").arg(&places.work);
        if waste == Waste::None {
            fill.arg("--no-waste");
        }
        children.run("seed", fill).await?;
        World::read(&places.work)
    }

    /// Gives each node a session of the deployed role, and reads the world.
    ///
    /// # Errors
    /// If the simulator refuses.
    pub(super) async fn hand_out_roles(
        &self,
        places: &Places,
        children: &mut Children,
        node_role: &str,
    ) -> Result<World> {
        let mut give = places.python("credentials.py");
        give.arg("--world").arg(places.work.join("world.json"));
        give.args(["--ministack", &self.platform, "--node-role", node_role]);
        children.run("credentials", give).await?;
        World::read(&places.work)
    }

    /// Sets the environment so that a program can reach only this account.
    pub(super) fn surround(&self, command: &mut Command) {
        command
            .env("AWS_ENDPOINT_URL", &self.platform)
            .env("AWS_REGION", REGION)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // A profile of the user must have no effect.
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env_remove("AWS_PROFILE");
    }

    /// Verifies an address as a sender in SES, as its owner would do.
    ///
    /// # Errors
    /// If the simulator refuses.
    pub(super) async fn verify_sender(&self, address: &str) -> Result<()> {
        let url = format!("{}/v2/email/identities", self.platform);
        let body = serde_json::json!({ "EmailIdentity": address }).to_string();
        let authorization = authorization("ses");
        let request = Request {
            method: "POST",
            headers: &[
                ("Authorization", &authorization),
                ("Content-Type", "application/json"),
            ],
            body: body.as_bytes(),
            ..Request::get(&url)
        };
        request
            .send()
            .await?
            .good()
            .context("verifying the sender")?;
        Ok(())
    }
}

/// Whether waste is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waste {
    /// Some waste of each kind.
    Planted,
    /// No waste.
    None,
}

/// The simulator reads the service and the account from this header; it checks no signature.
pub(super) fn authorization(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request, \
         SignedHeaders=host, Signature=0"
    )
}

async fn answers(children: &mut Children, url: &str) -> Result<()> {
    let until = Instant::now() + START;
    while Instant::now() < until {
        children.check()?;
        if Request::get(url).send().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("{url} does not answer after {} s", START.as_secs())
}

/// All ports stay open until the last is found, so that they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("finding a free port")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
