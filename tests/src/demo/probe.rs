//! The real part: the real probe as one of the nodes, with a pipeline whose steps run in cgroups
//! with the layout of ECS.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use super::account::{Account, REGION};
use super::cgroup::{self, Container};
use super::children::Children;
use super::deploy::Deployment;
use super::places::Places;
use crate::fleet::BEAT;
use crate::world::{Node, World};

/// The length of an interval in seconds, the same as for simulated nodes.
const BEAT_SECONDS: u64 = BEAT.as_secs();

/// The names in `ebb-probe check` of the requirements on this machine, as opposed to the cloud.
const OF_THE_MACHINE: [&str; 4] = ["capabilities", "kernel types", "cgroups", "kernel half"];

/// The probe and its pipeline while they run.
#[derive(Debug)]
pub(super) struct RealNode {
    probe: Option<Command>,
    steps: Vec<(String, Container)>,
}

impl RealNode {
    /// Writes the probe's configuration and lets it check this machine. The inner `Err` contains
    /// the missing requirements of the machine.
    ///
    /// # Errors
    /// If the machine meets the requirements and something else fails.
    pub(super) async fn prepare(
        places: &Places,
        account: &Account,
        deployed: &Deployment,
        world: &World,
    ) -> Result<Result<Self, String>> {
        let node = world
            .probe()
            .context("the world has no node for the probe")?;
        let config = places.work.join("probe.toml");
        fs::write(&config, configuration(places, deployed))?;
        let mut check = program(places, account, node)?;
        check.args(["check", "--config"]).arg(&config);
        let output = check
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return match lacking(&stdout) {
                Some(lacking) => Ok(Err(lacking)),
                None => bail!("ebb-probe check failed:\n{stdout}{stderr}"),
            };
        }
        if let Some(obstacle) = cgroup::obstacle() {
            return Ok(Err(obstacle));
        }
        let mut probe = program(places, account, node)?;
        probe.args(["run", "--config"]).arg(&config);
        Ok(Ok(Self {
            probe: Some(probe),
            steps: Vec::new(),
        }))
    }

    /// Starts the probe and, once it observes the node, the pipeline.
    ///
    /// # Errors
    /// If one cannot be started.
    pub(super) async fn start(
        &mut self,
        places: &Places,
        children: &mut Children,
        node: &Node,
    ) -> Result<()> {
        let probe = self.probe.take().context("the probe runs already")?;
        children.start("probe", probe)?;
        children.says("probe", "the probe is running").await?;
        let port = silent_socket()?;
        for step in &node.steps {
            let script = places.demo(&format!("{}.sh", step.job_name));
            let container = Container::make(&step.step_id)?;
            let folder = places.work.join("pipeline").join(&step.job_name);
            fs::create_dir_all(&folder)?;
            // The process first moves to its cgroup, as a container runtime does it. It also has a
            // lower priority than the demo, in case there are few cores.
            let mut run = Command::new("sh");
            run.args([
                "-c",
                "echo $$ > \"$1\" && exec nice -n 10 bash \"$2\"",
                "step",
            ]);
            run.arg(container.door()).arg(script);
            run.current_dir(folder).env("SILENT_PORT", port.to_string());
            children.start(&step.job_name, run)?;
            self.steps.push((step.job_name.clone(), container));
        }
        Ok(())
    }

    /// Ends the pipeline and then the probe, which sends its remaining data.
    pub(super) async fn end(&mut self, children: &mut Children) {
        for (name, container) in self.steps.drain(..) {
            children.end(&name).await;
            drop(container);
        }
        children.end("probe").await;
    }
}

fn configuration(places: &Places, deployed: &Deployment) -> String {
    format!(
        "queue_url = \"{}\"\nbucket = \"{}\"\nregion = \"{REGION}\"\nspool_dir = \"{}\"\n\
         interval_seconds = {BEAT_SECONDS}\nsample_seconds = 1\nsteps_seconds = 5\n",
        deployed.queue_url,
        deployed.bucket,
        places.work.join("spool").display(),
    )
}

/// The probe with the role of the node that this machine represents.
fn program(places: &Places, account: &Account, node: &Node) -> Result<Command> {
    let given = node.credentials.as_ref();
    let given = given.context("the probe's node has no credentials")?;
    let mut command = Command::new(places.program("ebb-probe")?);
    account.surround(&mut command);
    command
        .env("AWS_ACCESS_KEY_ID", &given.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &given.secret_access_key)
        .env("AWS_SESSION_TOKEN", &given.session_token);
    Ok(command)
}

/// The missing requirements of a machine in the output of `ebb-probe check`; `None` if another
/// requirement is missing.
fn lacking(output: &str) -> Option<String> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("LACKS"));
    let (machine, other): (Vec<&str>, Vec<&str>) = lines
        .map(str::trim)
        .partition(|line| OF_THE_MACHINE.iter().any(|what| line.starts_with(what)));
    (!machine.is_empty() && other.is_empty()).then(|| machine.join("; "))
}

/// A server that accepts connections and never answers; it ends with the demo.
fn silent_socket() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("opening a silent socket")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok(connection) = listener.accept() {
            held.push(connection);
        }
    });
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_machine_lacks_skips_the_probe() {
        let check = |output: &str, expect: Option<&str>| {
            assert_eq!(lacking(output).as_deref(), expect, "{output}");
        };
        let unmet = "LACKS capabilities  no CAP_BPF; run it as root\n";
        check(unmet, Some("capabilities  no CAP_BPF; run it as root"));
        check("ok    capabilities  fine\n", None);
        check("LACKS queue         denied\n", None);
        check(&format!("{unmet}LACKS queue   denied\n"), None);
    }
}
