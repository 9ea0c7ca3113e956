//! Tests of the cause that keeps an idle node alive, its patience and the advice.

use ebb_model::finding::evidence::Evidence;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{Controller, controller_from_tags};
use ebb_model::visibility_gap::{ENDED_JOBS, Gap};
use ebb_telemetry::step::StepKind;
use ebb_telemetry::testing::{at, clock, node, usage};

use crate::rules::node::idle::tests::quiet;
use crate::testing::{World, instance, requested};

/// The cause and the advice of the finding, or the reason why there is none.
fn describe_result(world: &World) -> String {
    match world.verdict() {
        Ok(finding) => {
            let Evidence::IdleNode(idle) = &finding.evidence else {
                return finding.evidence.to_string();
            };
            let keeper = idle.kept_alive_by.as_ref().map(ToString::to_string);
            let keeper = keeper.unwrap_or_else(|| "nothing".to_owned());
            format!("{keeper} | {}", finding.remedy.advice)
        }
        Err(reason) => reason,
    }
}

#[test]
fn a_step_a_login_and_a_notebook_each_have_their_own_remedy() {
    let check = |steps: &[(StepKind, &str)], expect: &str| {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 40, |minute, h| {
            let step = |(n, (kind, name)): (u64, &(StepKind, &str))| {
                let mut step = usage(n, clock(minute * 60 + 60));
                (step.id.kind, step.name) = (*kind, (*name).to_owned());
                step.last_progress = clock(0);
                step
            };
            h.steps = (1..).zip(steps).map(step).collect();
        });
        let text = describe_result(&world);
        assert!(
            text.starts_with(expect),
            "'{text}' should begin with '{expect}'"
        );
    };
    check(&[], "nothing | Ask ada");
    check(&[(StepKind::Service, "sshd.service")], "nothing | Ask ada");
    check(
        &[(StepKind::Session, "ada on pts/0")],
        "login ada on pts/0 is open without input | Close login ada on pts/0",
    );
    check(
        &[
            (StepKind::Session, "ada"),
            (StepKind::Service, "jupyterhub.service"),
        ],
        "notebook jupyterhub.service is open without computation | Save and shut down",
    );
    check(
        &[(StepKind::Session, "ada"), (StepKind::SlurmJob, "align")],
        "task align exists without activity | Terminate task align",
    );
}

/// A worker of an environment without any task for `minutes` minutes.
fn worker(minutes: u64, change: impl Fn(&mut World)) -> World {
    let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(1, 1));
    world.job().stopped_at = Some(at(0));
    let workers = &mut world.inventory.batch.container_instances;
    workers.change(|worker| worker.running_tasks = Some(0));
    change(&mut world);
    world.watch(1, 0, minutes, quiet);
    world
}

#[test]
fn what_an_environment_is_told_keeps_its_machines_and_is_given_its_own_time() {
    let check = |minutes: u64, change: fn(&mut World), expect: &str| {
        let text = describe_result(&worker(minutes, change));
        assert!(
            text.starts_with(expect),
            "'{text}' should begin with '{expect}'"
        );
    };
    let daemon = |world: &mut World| {
        let workers = &mut world.inventory.batch.container_instances;
        workers.change(|worker| worker.running_tasks = Some(2));
    };
    let held = "2 ECS tasks outside AWS Batch prevent its scale-in | AWS Batch \
                does not scale in";
    check(20, daemon, held);
    check(10, daemon, "observed for only");
    let least = |world: &mut World| world.inventory.batch.environments[0].min_vcpus = Some(8);
    check(
        70,
        least,
        "its compute environment keeps at least 8 vCPUs | Set the minimum vCPUs of the \
         compute environment to 0 instead of 8",
    );
    check(
        50,
        least,
        "observed for only 50 min; at least 60 min are required",
    );
    let off = |world: &mut World| {
        let environment = &mut world.inventory.batch.environments[0];
        (environment.enabled, environment.min_vcpus) = (Some(false), Some(8));
    };
    check(
        40,
        off,
        "its compute environment is disabled, but keeps instances for its minimum vCPUs | Set \
         the minimum vCPUs of the disabled",
    );
    let delay = |world: &mut World| {
        world.inventory.batch.environments[0].scale_down_delay_minutes = Some(60);
    };
    check(
        40,
        delay,
        "its compute environment keeps instances for 60 min after their last job",
    );
    check(
        75,
        delay,
        "the scale-in delay of its compute environment (60 min) is over | AWS Batch should \
         have terminated this instance",
    );
}

#[test]
fn a_node_with_tasks_is_not_idle_while_its_jobs_could_not_all_be_read() {
    let check = |scope: &'static str, expect: &str| {
        let with_gap = |world: &mut World| {
            let workers = &mut world.inventory.batch.container_instances;
            workers.change(|worker| worker.running_tasks = Some(2));
            let gap = Gap::new(scope, "AccessDenied");
            world.inventory.gaps.push(gap);
        };
        let text = describe_result(&worker(40, with_gap));
        assert!(
            text.starts_with(expect),
            "'{text}' should begin with '{expect}'"
        );
    };
    let unknown = "2 ECS tasks run on it. They may belong to jobs";
    check("us-east-1: batch:ListJobs", unknown);
    check("us-east-1: batch:DescribeJobs", unknown);
    let held = "2 ECS tasks outside AWS Batch prevent its scale-in";
    check("us-east-1: batch:GetJobQueueSnapshot", held);
    check("eu-west-1: batch:ListJobs", held);
}

#[test]
fn tasks_hold_a_node_in_an_account_with_many_ended_jobs() {
    let with_gap = |world: &mut World| {
        let workers = &mut world.inventory.batch.container_instances;
        workers.change(|worker| worker.running_tasks = Some(2));
        let gap = Gap::new(format!("us-east-1: {ENDED_JOBS}"), "only the first 5000");
        world.inventory.gaps.push(gap);
    };
    let text = describe_result(&worker(40, with_gap));
    let held = "2 ECS tasks outside AWS Batch prevent its scale-in";
    assert!(text.starts_with(held), "{text}");
}

#[test]
fn where_agent_and_probe_disagree_the_silent_one_is_named() {
    let mut world = worker(40, |_| {});
    world.now = at(3 * 3600);
    let expect = "but its ECS agent is connected: the probe has stopped";
    assert!(
        describe_result(&world).contains(expect),
        "{}",
        describe_result(&world)
    );
}

#[test]
fn what_a_controller_owns_is_never_to_be_stopped_by_hand() {
    let check = |tag: &str, controller: Controller, command: &str| {
        let mut machine = instance(1);
        machine.tags.insert(tag.into(), "x".into());
        machine.tags.insert("eks:cluster-name".into(), "c".into());
        machine.controller = controller_from_tags(&machine.tags);
        assert_eq!(machine.controller.as_ref(), Some(&controller));
        let mut world = World::with([machine]);
        world.watch(1, 0, 40, quiet);
        let remedy = world.verdict().expect("it is idle").remedy;
        let command_line = remedy.command.expect("a command");
        assert!(command_line.starts_with(command), "{command_line}");
        let words = format!("{command_line} {}", remedy.advice).to_lowercase();
        assert!(
            !words.contains("terminate-inst") && !words.contains("stop-inst"),
            "{words}"
        );
    };
    let name = || "x".to_owned();
    check(
        "aws:autoscaling:groupName",
        Controller::AutoScalingGroup(name()),
        "aws autoscaling",
    );
    check(
        "eks:nodegroup-name",
        Controller::EksNodegroup(name()),
        "aws eks",
    );
    check(
        "karpenter.sh/nodepool",
        Controller::KarpenterNodePool(name()),
        "kubectl get nodepool",
    );
    check(
        "aws:elasticmapreduce:job-flow-id",
        Controller::EmrCluster(name()),
        "aws emr",
    );
    check(
        "parallelcluster:cluster-name",
        Controller::ParallelCluster(name()),
        "pcluster",
    );
}

#[test]
fn a_minimum_capacity_keeps_no_node_if_the_others_have_as_much() {
    let others_are_enough = |world: &mut World| {
        world.inventory.batch.environments[0].min_vcpus = Some(4);
        let key = "aws:batch:compute-environment".to_owned();
        let mut other = instance(2);
        other.tags.insert(key, "env".to_owned());
        other.launched_at = None;
        let tags = other.tags.clone();
        world.inventory.instances.insert(other.id.clone(), other);
        let own = world.inventory.instances.get_mut(&node(1));
        own.expect("the worker").tags = tags;
    };
    let text = describe_result(&worker(40, others_are_enough));
    assert!(
        text.starts_with("nothing | Reduce the minimum vCPUs"),
        "{text}"
    );
}
