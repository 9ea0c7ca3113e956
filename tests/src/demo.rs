//! The demo: the main job of the product, end to end in a simulated account. It starts the
//! product's own programs as in a deployment. Its special settings are in this module, in its
//! policy file and in `tests/sim`.

mod account;
mod cgroup;
mod check;
mod children;
mod console;
mod deploy;
mod http;
mod places;
mod probe;
mod received;
mod show;
mod sweep;

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use tokio::process::Command;
use tokio::time::Instant;

pub use account::Waste;
pub use check::{RealProbe, Verdict};
pub use console::Console;
pub use deploy::Means;
pub use show::tell;

use crate::fleet::BEAT;
use crate::world::{Planted, World};
use account::Account;
use children::Children;
use deploy::{Deploying, Deployment, EMAIL};
use places::Places;
use probe::RealNode;

/// The length of the past that the simulated nodes send: twice the time that a result requires.
const PAST: Duration = Duration::from_secs(60);

/// The most additional sweeps. On a busy machine a message of five heartbeats may arrive too late
/// for a result that requires 15 s. A schedule would also sweep again.
const MORE_SWEEPS: usize = 3;

/// The interval of the sweeps of a demo that is left running.
const KEPT_SWEEPS: Duration = Duration::from_secs(15);

/// The settings of a demo.
#[derive(Debug, Clone)]
pub struct Options {
    /// Varies the kind, place and amount of planted waste.
    pub seed: u64,
    /// Whether waste is planted.
    pub waste: Waste,
    /// How the product is deployed.
    pub means: Means,
    /// Whether to try the real probe.
    pub probe: RealProbe,
    /// The number of queues and sweeps among which the nodes are divided.
    pub shards: u8,
    /// The folder for output; `None` for a folder next to the programs.
    pub work: Option<PathBuf>,
}

/// A running demo; [`Demo::end`] takes it down.
#[derive(Debug)]
pub struct Demo {
    options: Options,
    console: Console,
    places: Places,
    children: Children,
    node: Option<RealNode>,
    policy: Policy,
    stage: Option<Stage>,
}

/// The part of the account that the demo uses after the deployment.
#[derive(Debug, Clone)]
struct Stage {
    account: Account,
    deployed: Deployment,
    world: World,
}

impl Demo {
    /// Creates the folder of the run and starts nothing.
    ///
    /// # Errors
    /// Names a missing program and how to install it.
    pub fn new(options: Options, console: Console) -> Result<Self> {
        let places = Places::find(options.work.clone(), options.seed)?;
        places.clear_work()?;
        let children = Children::new(places.work.join("logs"))?;
        let text = fs::read_to_string(places.demo("policy.toml"))?;
        Ok(Self {
            policy: Policy::parse(&text).context("the demo's policy")?,
            node: None,
            stage: None,
            options,
            console,
            places,
            children,
        })
    }

    /// Runs all parts and returns the comparison with the planted waste.
    ///
    /// # Errors
    /// If a part could not be run.
    pub async fn play(&mut self) -> Result<Verdict> {
        let console = self.console;
        console.say(format_args!(
            "logs and files in {}",
            self.places.work.display()
        ));
        let stage = self.deploy().await?;
        self.stage = Some(stage.clone());
        let probe = self.run_nodes(&stage).await?;
        let report = self.sweep(&stage).await?;
        self.show(&stage, &report).await?;
        console.part(6, "Check against what was planted");
        let planted = Planted::read(&self.places.work)?;
        let verdict = Verdict::new(&report, &planted, &stage.world, probe);
        show::tell(&console, &verdict);
        Ok(verdict)
    }

    /// Parts 1 and 2: creates the account and deploys the product.
    async fn deploy(&mut self) -> Result<Stage> {
        let (console, places) = (self.console, self.places.clone());
        let children = &mut self.children;
        console.part(1, "A simulated AWS account on this machine");
        deploy::pack(&places, children)?;
        let account = Account::start(&places, children).await?;
        console.say(format_args!(
            "MiniStack (storage, queues, Lambda, API, mail) on {}",
            account.platform
        ));
        console.say(format_args!(
            "moto (machines, jobs, metrics, bill) on {}",
            account.inventory
        ));
        let (seed, waste) = (self.options.seed, self.options.waste);
        let world = account.fill(&places, children, seed, waste).await?;
        console.say(format_args!(
            "filled by seed {seed}: {} running instances in {}; what waste is among them is in \
             planted.json, which only part 6 reads",
            world.nodes.len(),
            world.regions.join(", "),
        ));

        console.part(
            2,
            match self.options.means {
                Means::Terraform => "Deploy with terraform apply and the real AWS provider",
                Means::Calls => "Deploy by calls of the API (a test's short cut)",
            },
        );
        deploy::packed(children).await?;
        console.say("the packages of both functions are ready");
        let setup = (self.options.means, self.options.shards);
        let deploying =
            Deploying::begin(setup, &places, &account, children, &world.regions).await?;
        let deployed = deploying.finish(&places, children, &console).await?;
        console.say(format_args!(
            "bucket {}, {}",
            deployed.bucket,
            deployed.queue_url.replace(',', " and ")
        ));
        account.verify_sender(EMAIL.0).await?;
        let role = &deployed.node_role_arn;
        let world = account.hand_out_roles(&places, children, role).await?;
        Ok(Stage {
            account,
            deployed,
            world,
        })
    }

    /// Part 3: runs the nodes.
    async fn run_nodes(&mut self, stage: &Stage) -> Result<RealProbe> {
        let console = self.console;
        console.part(3, "Nodes: one real, the others simulated");
        console.say(format_args!(
            "heartbeats every {} s; the policy:",
            BEAT.as_secs()
        ));
        console.quote(&fs::read_to_string(self.places.demo("policy.toml"))?);
        let probe = self.start_probe(stage).await?;
        let began = Instant::now();
        self.start_fleet(stage).await?;
        if probe == RealProbe::Ran {
            self.wait_for_pipeline(began).await?;
        }
        Ok(probe)
    }

    async fn start_probe(&mut self, stage: &Stage) -> Result<RealProbe> {
        let console = self.console;
        if self.options.probe == RealProbe::Skipped {
            console.say("real probe: skipped, as asked");
            return Ok(RealProbe::Skipped);
        }
        let Stage {
            account,
            deployed,
            world,
        } = stage;
        let node = match RealNode::prepare(&self.places, account, deployed, world).await? {
            Ok(node) => node,
            Err(lacking) => {
                console.say(format_args!("real probe: skipped: {lacking}"));
                return Ok(RealProbe::Skipped);
            }
        };
        let stands_for = world
            .probe()
            .context("the world has no node for the probe")?;
        // The check of the probe has sent an empty message.
        let before = received::messages(account, &deployed.queue_url).await?;
        // Stored from here on, so that every started program is ended in any case.
        let node = self.node.insert(node);
        node.start(&self.places, &mut self.children, stands_for)
            .await?;
        let names: Vec<&str> = stands_for
            .steps
            .iter()
            .map(|s| s.job_name.as_str())
            .collect();
        console.say(format_args!(
            "{}: ebb-probe with its eBPF programs in this kernel, as {} ({})",
            console.bold("real"),
            stands_for.instance_id,
            stands_for.name,
        ));
        console.say(format_args!(
            "  pipeline in ECS cgroups: {}",
            names.join(", ")
        ));
        // Nobody else sends yet.
        received::heartbeat(account, &deployed.queue_url, before).await?;
        console.say("  its first heartbeat is in the queue");
        Ok(RealProbe::Ran)
    }

    async fn start_fleet(&mut self, stage: &Stage) -> Result<()> {
        let mut fleet = Command::new(self.places.program("ebb-fleet")?);
        stage.account.surround(&mut fleet);
        fleet.arg("--world").arg(&self.places.work);
        fleet.args([
            "--queue-url",
            &stage.deployed.queue_url,
            "--bucket",
            &stage.deployed.bucket,
        ]);
        fleet.args(["--past", &PAST.as_secs().to_string()]);
        self.children.start("fleet", fleet)?;
        let line = self.children.says("fleet", "nodes told").await?;
        self.console.say(format_args!(
            "{}: {line}, and go on",
            self.console.bold("simulated")
        ));
        Ok(())
    }

    /// Waits until the hanging step has been observed long enough, and for a message of five
    /// heartbeats.
    async fn wait_for_pipeline(&mut self, began: Instant) -> Result<()> {
        let watch = self.policy.batch.no_progress() + BEAT * 8;
        let until = began + watch;
        self.console.say(format_args!(
            "the probe watches the pipeline for {} s: a step that hangs is told after {}",
            watch.as_secs(),
            self.policy.batch.no_progress().as_secs(),
        ));
        while Instant::now() < until {
            self.children.check()?;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    /// Part 4: sweeps until every finding that requires two sweeps is reported.
    async fn sweep(&mut self, stage: &Stage) -> Result<Report> {
        let console = self.console;
        console.part(4, "Sweep, and ask the API");
        self.sweep_once(stage).await?;
        let first = sweep::report(&stage.account, &stage.deployed).await?;
        let wait = self.policy.batch.agent_disconnected() + Duration::from_secs(1);
        console.say(format_args!(
            "an ECS agent is called lost only at a second look, {} s later",
            wait.as_secs()
        ));
        tokio::time::sleep(wait).await;
        self.sweep_once(stage).await?;
        let mut report = sweep::report(&stage.account, &stage.deployed).await?;
        for _ in 0..MORE_SWEEPS {
            if undetermined(&report) <= undetermined(&first) {
                break;
            }
            console.say("some heartbeats were late; the next sweep judges what they tell of");
            tokio::time::sleep(BEAT * 2).await;
            self.sweep_once(stage).await?;
            report = sweep::report(&stage.account, &stage.deployed).await?;
        }
        self.tell_spot(&report);
        match step_to_ask_for(&report, &stage.world) {
            Some(step) => {
                let (url, answer) = sweep::recommendation(&stage.deployed, &step).await?;
                console.say(format_args!("GET {url}"));
                self.quote_start("recommendation", &serde_json::to_string_pretty(&answer)?)?;
            }
            None => console.say("no overprovisioned step to ask the API for"),
        }
        Ok(report)
    }

    /// Shows the spot recommendations of a step at the simulator's spot prices.
    fn tell_spot(&self, report: &Report) {
        let with_spot = report
            .steps
            .iter()
            .find(|step| !step.offers.spot.is_empty());
        let Some(step) = with_spot else {
            return self.console.say("no step is offered spot machines");
        };
        let named: Vec<String> = step
            .offers
            .spot
            .iter()
            .map(|offer| format!("{} {}", offer.instance_type, offer.per_hour))
            .collect();
        self.console.say(format_args!(
            "{}, on spot (prices and interruptions simulated): {}",
            step.step,
            named.join(", ")
        ));
    }

    async fn sweep_once(&mut self, stage: &Stage) -> Result<()> {
        self.children.check()?;
        let began = self.console.elapsed();
        let summary = sweep::sweep(&stage.account, &stage.deployed).await?;
        let took = self.console.elapsed() - began;
        self.console.say(format_args!(
            "sweep in {took:.1} s: {}",
            sweep::in_words(&summary)
        ));
        Ok(())
    }

    /// Sweeps at intervals without end, so that the pages of the running demo move.
    ///
    /// # Errors
    /// If a part has ended or a sweep failed.
    pub async fn go_on(&mut self) -> Result<Infallible> {
        let stage = self.stage.clone().context("nothing is deployed")?;
        loop {
            tokio::time::sleep(KEPT_SWEEPS).await;
            self.children.check()?;
            sweep::sweep(&stage.account, &stage.deployed).await?;
        }
    }

    /// Ends all started programs.
    pub async fn end(&mut self) {
        if let Some(mut node) = self.node.take() {
            node.end(&mut self.children).await;
        }
        self.children.end_all().await;
    }
}

/// The number of nodes that were not evaluated for lack of heartbeats.
fn undetermined(report: &Report) -> usize {
    let reasons = report.not_evaluated.iter().map(|n| n.reason.as_str());
    let for_want = |r: &&str| r.contains("observed only") || r.contains("last heartbeat");
    reasons.filter(for_want).count()
}

/// The step that the real probe observed, otherwise the most expensive one.
fn step_to_ask_for(report: &Report, world: &World) -> Option<String> {
    use ebb_model::finding_kind::FindingKind::OverprovisionedStep;
    let steps = || {
        report
            .findings
            .iter()
            .filter(|f| f.kind == OverprovisionedStep)
    };
    let measured = |node: &Option<String>| node.as_deref() == Some(world.probe_node.as_str());
    let real = steps().find(|finding| measured(&finding.resource.node));
    real.or_else(|| steps().next())
        .map(|finding| finding.resource.id.clone())
}
