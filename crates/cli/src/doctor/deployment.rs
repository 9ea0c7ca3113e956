//! `ebb doctor deployment`: follows a deployment from the access to its place to the messages, and names the first part that
//! does not work. Reading is separate from the evaluation.

use ebb_model::report::Report;
use ebb_model::report::probe_problem::{GROWN_SPOOL, ProbeProblem, WRONG_CLOCK_SECONDS};
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_report::remediation::of_gap;
use ebb_telemetry::safe_text::counted;
use jiff::{SignedDuration, Timestamp};

use super::check::{Check, Problem};
use crate::deployment::{self, Deployment, Place, Target};

/// A sweep is late after this time. The module's default is a sweep every 10 minutes.
const SWEEP_LATE: SignedDuration = SignedDuration::from_mins(30);

/// After this time no interval explains a missing sweep.
const SWEEP_MISSING: SignedDuration = SignedDuration::from_hours(25);

/// A node sends a heartbeat each minute, and a sweep reads it within its interval.
const HEARTBEAT_LATE: SignedDuration = SignedDuration::from_mins(15);

/// Nodes that one line names at most.
const NAMED: usize = 3;

/// Data of a deployment before its evaluation.
pub(super) struct DeploymentFacts {
    /// Its place, as the user names it.
    place: Place,
    /// The caller if the deployment answered, or the reason.
    access: Result<String, Problem>,
    /// The newest report; `None` before the first sweep.
    report: Result<Option<Report>, String>,
    /// Whether sweeps can read the policy; `None` if that cannot be tested.
    policy: Option<Result<(), String>>,
    /// Why the last message of a channel failed, by channel, and whether the others got one.
    channels: Option<Result<ChannelFacts, String>>,
}

/// The channels of a deployment.
#[derive(Default)]
pub(super) struct ChannelFacts {
    failed: Vec<(String, String)>,
    reached: Vec<String>,
    /// Channels that have not received any message yet.
    unused: Vec<String>,
}

pub(super) async fn checks(target: &Target) -> Vec<Check> {
    evaluate(&read(target).await, Timestamp::now())
}

async fn read(target: &Target) -> DeploymentFacts {
    let place = target.place.value.clone();
    let deployment = match deployment::open(target).await {
        Ok(deployment) => deployment,
        Err(error) => return DeploymentFacts::without_access(place, error.into()),
    };
    let report = match deployment.report_time().await {
        Ok(None) => Ok(None),
        Ok(Some(_)) => {
            let report = deployment.newest_report().await.map(Some);
            report.map_err(|error| Problem::from(error).cause)
        }
        Err(error) => return DeploymentFacts::without_access(place, error.into()),
    };
    let access = match &deployment {
        Deployment::Stored(stored) => format!("{place}, as {}", stored.who),
        Deployment::Api(_) => place.to_string(),
    };
    DeploymentFacts {
        place,
        access: Ok(access),
        report,
        policy: policy(&deployment).await,
        channels: channels(&deployment).await,
    }
}

#[cfg(feature = "sweep")]
async fn policy(deployment: &Deployment) -> Option<Result<(), String>> {
    use ebb_telemetry::safe_text::one_line;

    let Deployment::Stored(stored) = deployment else {
        return None;
    };
    let key = ebb_sweep::standalone::POLICY_KEY;
    let read = ebb_sweep::run::policy(stored.objects.as_ref(), key).await;
    Some(read.map(drop).map_err(|error| one_line(&error.to_string())))
}

#[cfg(not(feature = "sweep"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn policy(_: &Deployment) -> Option<Result<(), String>> {
    None
}

#[cfg(feature = "sweep")]
async fn channels(deployment: &Deployment) -> Option<Result<ChannelFacts, String>> {
    use ebb_cloud::error_chain::reason;

    let Deployment::Stored(stored) = deployment else {
        return None;
    };
    let loaded = ebb_notify::delivery_state::load(stored.objects.as_ref(), 0).await;
    Some(match loaded {
        Ok((state, _)) => {
            // Earlier versions did not store the time of a delivery.
            let is_reached = |channel: &String| {
                let history = state.channels.get(channel);
                state.delivered.contains_key(channel)
                    || state.greeted.contains(channel)
                    || history.is_some_and(|history| !history.findings.is_empty())
            };
            let channels = state.channels.keys().cloned();
            let present = channels.filter(|channel| !state.absent.contains_key(channel));
            let (reached, unused) = present.partition(is_reached);
            Ok(ChannelFacts {
                reached,
                unused,
                failed: state.failed.into_iter().collect(),
            })
        }
        Err(error) => Err(reason(&error)),
    })
}

#[cfg(not(feature = "sweep"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn channels(_: &Deployment) -> Option<Result<ChannelFacts, String>> {
    None
}

impl DeploymentFacts {
    fn without_access(place: Place, why: Problem) -> Self {
        Self {
            place,
            access: Err(why),
            report: Ok(None),
            policy: None,
            channels: None,
        }
    }
}

/// The parts in their order. A part that depends on a broken one is not checked.
fn evaluate(facts: &DeploymentFacts, now: Timestamp) -> Vec<Check> {
    let mut checks = vec![access(facts)];
    if facts.access.is_err() {
        checks.extend(depend(&["sweep", "queue", "probes", "messages"], "access"));
        return checks;
    }
    if let Some(Err(problem)) = &facts.policy {
        let check = Check::missing("policy", format!("each sweep fails: {problem}"));
        checks.push(check.with_remedy("ebb policy check FILE, then replace config/policy.toml"));
    }
    let (check, report) = sweep(facts, now);
    checks.push(check);
    match report {
        Some(report) => {
            checks.extend(rights(report));
            checks.extend(queue(report));
            checks.push(coverage(report));
            checks.extend(heartbeats(report));
            checks.extend(health(report));
        }
        None => checks.extend(depend(&["queue", "probes"], "sweep")),
    }
    checks.push(messages(facts));
    checks
}

fn depend<'a>(names: &'a [&str], on: &'a str) -> impl Iterator<Item = Check> + 'a {
    let detail = format!("depends on: {on}");
    names
        .iter()
        .map(move |name| Check::not_checked(*name, detail.clone()))
}

fn access(facts: &DeploymentFacts) -> Check {
    match &facts.access {
        Ok(detail) => Check::ok("access", detail),
        Err(why) => {
            let usual = || match &facts.place {
                Place::Bucket(name) => format!("aws s3 ls s3://{name}/reports/latest/"),
                Place::Lake(url) => format!("check the address {url} and your right to read it"),
                Place::Api(url) => {
                    let url = url.as_str().trim_end_matches('/');
                    format!("curl -i {url}/v1/openapi.json")
                }
            };
            Check::missing("access", &why.cause)
                .with_remedy(why.remedy.clone().unwrap_or_else(usual))
        }
    }
}

/// The newest report, and whether a sweep wrote it in time.
fn sweep(facts: &DeploymentFacts, now: Timestamp) -> (Check, Option<&Report>) {
    let look = match &facts.place {
        Place::Bucket(_) | Place::Api(_) => {
            "aws logs tail /aws/lambda/ebb-sweeper --since 1h   (ebb is the variable `name` of the module)".to_owned()
        }
        Place::Lake(url) => format!("systemctl status ebb-sweep.timer ebb-sweep; systemctl start ebb-sweep   (the sweep of {url})"),
    };
    let report = match &facts.report {
        Ok(Some(report)) => report,
        Ok(None) => {
            let check = Check::missing("sweep", "no sweep has written a report");
            return (check.with_remedy(look), None);
        }
        Err(why) => return (Check::missing("sweep", why).with_remedy(look), None),
    };
    let age = now.duration_since(report.at);
    let minutes = age.as_mins().max(0);
    let detail = match minutes {
        0..=119 => format!("the last one was {minutes} min ago"),
        120..=2_880 => format!("the last one was {} h ago", minutes / 60),
        _ => format!("the last one was {} days ago", minutes / 1_440),
    };
    let check = if age > SWEEP_MISSING {
        Check::missing("sweep", detail).with_remedy(look)
    } else if age > SWEEP_LATE {
        let detail = format!("{detail}; by default there is one every 10 minutes");
        Check::limited("sweep", detail).with_remedy(look)
    } else {
        Check::ok("sweep", detail)
    };
    (check, Some(report))
}

/// Calls that AWS refused to the last sweep.
fn rights(report: &Report) -> Vec<Check> {
    let mut seen = std::collections::BTreeSet::new();
    let denied = report.gaps.iter().filter(|gap| gap.denied.is_some());
    let denied = denied.filter(|gap| seen.insert(gap.denied.clone()));
    let checks = denied.map(|gap| {
        let check = Check::limited(
            "rights of the sweep",
            format!("{}: {}", gap.scope, gap.reason),
        );
        match of_gap(gap) {
            Some(remedy) => check.with_remedy(remedy),
            None => check,
        }
    });
    let mut checks: Vec<Check> = checks.collect();
    if checks.is_empty() {
        let others = report.gaps.len();
        let detail = match others {
            0 => "nothing was refused, nothing is missing".to_owned(),
            _ => format!(
                "nothing was refused; {} for another reason",
                counted(others, "gap", "gaps")
            ),
        };
        checks.push(Check::ok("rights of the sweep", detail));
    }
    checks
}

/// Whether the last sweep read all that the probes had sent to its queue. With several shards, the report
/// contains the gaps of the first one only.
fn queue(report: &Report) -> Vec<Check> {
    let name = "queue";
    let gaps = report.gaps.iter().filter(|gap| gap.is_of_ingestion());
    let mut checks: Vec<Check> = gaps
        .map(|gap| Check::limited(name, &gap.reason).with_remedy(QUEUE_REMEDY))
        .collect();
    if checks.is_empty() {
        let detail = "the sweep of the report read all messages of its queue, and refused none";
        checks.push(Check::ok(name, detail));
    }
    checks
}

const QUEUE_REMEDY: &str =
    "see docs/src/troubleshooting.md: \"A node is not in the report\" and \"Sweep fails\"";

const INSTALL: &str = "./install of the probe's archive, see docs/src/install.md";

fn coverage(report: &Report) -> Check {
    let (all, with) = (report.totals.running_instances, report.totals.with_probe);
    let name = "instances with a probe";
    let detail = format!("{with} of {all} running instances");
    match report.probes.len() {
        0 if with == 0 => {
            Check::missing(name, "no probe has sent a heartbeat").with_remedy(INSTALL)
        }
        _ if all == 0 => {
            let nodes = counted(
                report.probes.len() + report.probes_left_out,
                "node",
                "nodes",
            );
            Check::ok(name, format!("{nodes}, outside of EC2"))
        }
        _ if with < all => {
            let first = report.unwatched.machines.first();
            let step = first.map_or(INSTALL.to_owned(), |machine| {
                format!(
                    "for {}: {} (`ebb probes` lists the others)",
                    machine.label(),
                    machine.install
                )
            });
            Check::limited(name, detail).with_remedy(step)
        }
        _ => Check::ok(name, detail),
    }
}

/// Whether the queue or folder brings heartbeats: at least one of the nodes must be new.
fn heartbeats(report: &Report) -> Option<Check> {
    let newest = report.probes.iter().max_by_key(|probe| probe.heard_at)?;
    let age = report.at.duration_since(newest.heard_at);
    let name = "heartbeats";
    let detail = format!("the newest is of {}, from {}", newest.heard_at, newest.node);
    Some(match age > HEARTBEAT_LATE {
        true => Check::missing(name, detail)
            .with_remedy("on that node: ebb-probe check; journalctl -u ebb-probe"),
        false => Check::ok(name, detail),
    })
}

/// One line for each kind of trouble, with the nodes that have it.
fn health(report: &Report) -> Vec<Check> {
    type Trouble = (&'static str, &'static str, fn(&ProbeSummary) -> bool);
    const TROUBLES: [Trouble; 5] = [
        (
            "silent, though the machine should run",
            "on the node: systemctl status ebb-probe; ebb-probe check",
            |probe| probe.problems.contains(&ProbeProblem::Silent),
        ),
        (
            "without eBPF, short processes are missed",
            "on the node: ebb-probe check",
            |probe| probe.mode == ProbeMode::Procfs,
        ),
        (
            "lost kernel events or records since the start of the probe",
            "on the node: ebb-probe check; journalctl -u ebb-probe",
            |probe| probe.events_lost > 0 || probe.records_dropped > 0,
        ),
        (
            "records wait on disk to be sent",
            "on the node: ebb-probe check   (it tries the queue and the bucket)",
            |probe| probe.spool_bytes > GROWN_SPOOL,
        ),
        (
            "the clock is wrong by more than a minute",
            "on the node: timedatectl set-ntp true",
            |probe| probe.clock_ahead_seconds.unsigned_abs() > WRONG_CLOCK_SECONDS,
        ),
    ];
    let checks = TROUBLES
        .into_iter()
        .filter_map(|(what, remedy, is_troubled)| {
            let nodes: Vec<&str> = (report.probes.iter())
                .filter(|probe| is_troubled(probe))
                .map(|probe| probe.node.as_str())
                .collect();
            let first = nodes
                .iter()
                .take(NAMED)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            let more = match nodes.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let detail = format!("{what}: {first}{more}");
            (!nodes.is_empty()).then(|| Check::limited("probes", detail).with_remedy(remedy))
        });
    let mut checks: Vec<Check> = checks.collect();
    if checks.is_empty() && !report.probes.is_empty() {
        let all = counted(report.probes.len(), "probe", "probes");
        checks.push(Check::ok(
            "probes",
            format!("{all} without a loss, with right clocks"),
        ));
    }
    checks
}

fn messages(facts: &DeploymentFacts) -> Check {
    let name = "messages";
    match &facts.channels {
        None => Check::not_checked(
            name,
            "only with --bucket or --lake, and a program with the feature `sweep`",
        ),
        Some(Err(why)) => Check::not_checked(name, why),
        Some(Ok(channels)) => match channels.failed.first() {
            Some((channel, why)) => Check::missing(name, format!("{channel}: {why}")).with_remedy(
                "check the address or secret of this channel; the next sweep sends again",
            ),
            None if !channels.unused.is_empty() => Check::limited(
                name,
                format!("no message was sent yet: {}", channels.unused.join(", ")),
            )
            .with_remedy(
                "ebb sweep --send-test, with the variables of the sweep, tries each channel",
            ),
            None if channels.reached.is_empty() => {
                Check::limited(name, "no channel has received a message; reports only").with_remedy(
                    "set slack_webhook_url or email_to in Terraform, or EBB_SLACK_WEBHOOK_URL \
                     of `ebb sweep`; see docs/src/notifications.md",
                )
            }
            None => Check::ok(
                name,
                format!("the last ones arrived: {}", channels.reached.join(", ")),
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use ebb_cloud::endpoint::Endpoint;
    use ebb_model::report::Totals;
    use ebb_model::visibility_gap::{Gap, INGESTION};
    use ebb_report::report_file;
    use ebb_telemetry::identity::NodeId;
    use ebb_telemetry::origin::Origin;
    use ebb_telemetry::units::Bytes;

    use super::super::check::State;
    use super::*;

    fn problem(cause: &str) -> Problem {
        let (cause, remedy) = (cause.to_owned(), None);
        Problem { cause, remedy }
    }

    fn probe(node: &str, at: Timestamp) -> ProbeSummary {
        ProbeSummary {
            node: NodeId::new(node).expect("a node"),
            origin: Origin::Measured,
            mode: ProbeMode::Ebpf,
            heard_at: at,
            events_lost: 0,
            records_dropped: 0,
            spool_bytes: Bytes(0),
            resident_bytes: None,
            cpu_share: None,
            clock_ahead_seconds: 0,
            version: None,
            problems: Vec::new(),
        }
    }

    /// A deployment where everything works.
    fn facts() -> (DeploymentFacts, Timestamp) {
        let empty = serde_json::json!({
            "schema": Report::SCHEMA, "at": "2026-11-22T12:00:00Z", "origin": "measured",
            "findings": [], "not_evaluated": [], "gaps": [], "totals": Totals::default(),
        });
        let mut report = report_file::read(empty.to_string().as_bytes()).expect("a report");
        report.totals.running_instances = 2;
        report.totals.with_probe = 2;
        report.probes = vec![probe("i-0aaa", report.at), probe("i-0bbb", report.at)];
        let now = report.at;
        let channels = ChannelFacts {
            failed: Vec::new(),
            reached: vec!["slack".to_owned()],
            unused: Vec::new(),
        };
        let facts = DeploymentFacts {
            place: Place::Bucket("ebb-data".to_owned()),
            access: Ok("bucket ebb-data, as ana".to_owned()),
            report: Ok(Some(report)),
            policy: Some(Ok(())),
            channels: Some(Ok(channels)),
        };
        (facts, now)
    }

    fn report_of(facts: &mut DeploymentFacts) -> &mut Report {
        let report = facts.report.as_mut().expect("it was read");
        report.as_mut().expect("there is one")
    }

    /// The first check that is not ok.
    fn first(checks: &[Check]) -> Option<(&str, State, &str)> {
        let broken = checks.iter().find(|check| check.state != State::Ok)?;
        Some((&broken.name, broken.state, &broken.detail))
    }

    #[test]
    fn a_deployment_that_works_has_only_good_lines() {
        let (facts, now) = facts();
        let checks = evaluate(&facts, now);
        assert_eq!(first(&checks), None, "{checks:#?}");
        assert!(checks.iter().all(|check| check.remedy.is_none()));
    }

    /// The first part that is not ok after a change, which must have a remedy.
    fn broken_by(change: &dyn Fn(&mut DeploymentFacts)) -> (String, State, String) {
        let (mut facts, now) = facts();
        change(&mut facts);
        let checks = evaluate(&facts, now);
        let broken = checks.iter().find(|check| check.state != State::Ok);
        let broken = broken.expect("it is broken");
        assert!(broken.remedy.is_some(), "{checks:#?}");
        (broken.name.clone(), broken.state, broken.detail.clone())
    }

    fn check(change: &dyn Fn(&mut DeploymentFacts), name: &str, state: State, words: &str) {
        let (found, found_state, detail) = broken_by(change);
        assert_eq!((&*found, found_state), (name, state), "{detail}");
        assert!(detail.contains(words), "{detail} should say: {words}");
    }

    #[test]
    fn the_first_broken_part_of_the_chain_is_named() {
        use State::{Limited, Missing};
        let closed = |f: &mut DeploymentFacts| f.access = Err(problem("no such bucket"));
        check(&closed, "access", Missing, "no such bucket");
        check(&|f| f.report = Ok(None), "sweep", Missing, "no sweep");
        let damaged = |f: &mut DeploymentFacts| f.report = Err("damaged".into());
        check(&damaged, "sweep", Missing, "damaged");
        let misspelt = |f: &mut DeploymentFacts| f.policy = Some(Err("line 3: unknown key".into()));
        check(&misspelt, "policy", Missing, "line 3: unknown key");
        let unused = |f: &mut DeploymentFacts| {
            let unused = vec!["webhook/oncall".to_owned()];
            f.channels = Some(Ok(ChannelFacts {
                unused,
                ..ChannelFacts::default()
            }));
        };
        check(&unused, "messages", Limited, "webhook/oncall");
        let denied = |f: &mut DeploymentFacts| {
            let mut gap = Gap::new("eu-central-1: batch:DescribeJobs", "AccessDenied");
            gap.denied = Some("batch:DescribeJobs".to_owned());
            report_of(f).gaps.push(gap);
        };
        check(
            &denied,
            "rights of the sweep",
            Limited,
            "batch:DescribeJobs",
        );
        let refused = |f: &mut DeploymentFacts| {
            let gap = Gap::new(INGESTION, "3 messages or objects were refused");
            report_of(f).gaps.push(gap);
        };
        check(&refused, "queue", Limited, "3 messages");
        let quota = |f: &mut DeploymentFacts| {
            let gap = Gap::new(Gap::of_sender("i-1"), "a sender exceeded its quota");
            report_of(f).gaps.push(gap);
        };
        check(&quota, "queue", Limited, "quota");
        let failed = |f: &mut DeploymentFacts| {
            let failed = vec![("slack".to_owned(), "HTTP 404".to_owned())];
            let reached = Vec::new();
            f.channels = Some(Ok(ChannelFacts {
                failed,
                reached,
                unused: Vec::new(),
            }));
        };
        check(&failed, "messages", Missing, "slack: HTTP 404");
        let silent = |f: &mut DeploymentFacts| f.channels = Some(Ok(ChannelFacts::default()));
        check(&silent, "messages", Limited, "reports only");
    }

    #[test]
    fn probes_that_are_missing_silent_or_in_trouble_are_named() {
        use State::{Limited, Missing};
        let without = |f: &mut DeploymentFacts| report_of(f).totals.with_probe = 1;
        check(&without, "instances with a probe", Limited, "1 of 2");
        let none = |f: &mut DeploymentFacts| {
            report_of(f).totals.with_probe = 0;
            report_of(f).probes.clear();
        };
        check(&none, "instances with a probe", Missing, "no probe");
        let silent = |f: &mut DeploymentFacts| {
            let report = report_of(f);
            let old = report.at - SignedDuration::from_hours(2);
            (report.probes.iter_mut()).for_each(|probe| probe.heard_at = old);
        };
        check(&silent, "heartbeats", Missing, "i-0bbb");
        let lost = |f: &mut DeploymentFacts| report_of(f).probes[1].events_lost = 7;
        let words = "lost kernel events or records since the start of the probe: i-0bbb";
        check(&lost, "probes", Limited, words);
        let slow = |f: &mut DeploymentFacts| report_of(f).probes[0].clock_ahead_seconds = -90;
        check(&slow, "probes", Limited, "clock");
    }

    #[test]
    fn a_late_sweep_is_limited_and_one_of_yesterday_is_missing() {
        let (facts, at) = facts();
        let state = |minutes: i64| {
            let checks = evaluate(&facts, at + SignedDuration::from_mins(minutes));
            (checks[1].state, checks[1].detail.clone())
        };
        assert_eq!(
            state(20),
            (State::Ok, "the last one was 20 min ago".to_owned())
        );
        let late = "the last one was 3 h ago; by default there is one every 10 minutes";
        assert_eq!(state(180), (State::Limited, late.to_owned()));
        assert_eq!(
            state(26 * 60),
            (State::Missing, "the last one was 26 h ago".to_owned())
        );
    }

    #[test]
    fn without_access_nothing_else_is_checked() {
        let place = Place::Lake("file:///srv/ebb".to_owned());
        let facts = DeploymentFacts::without_access(place, problem("no folder"));
        let checks = evaluate(&facts, Timestamp::UNIX_EPOCH);
        let rest = checks.iter().skip(1);
        assert!(
            rest.clone().all(|check| check.state == State::NotChecked),
            "{checks:#?}"
        );
        assert_eq!(rest.count(), 4);
    }

    #[test]
    fn the_remedy_for_the_access_comes_from_the_error_or_from_the_place() {
        let api = Endpoint::parse("http://127.0.0.1:1").expect("a URL");
        let api = DeploymentFacts::without_access(Place::Api(api), problem("refused"));
        let remedy = access(&api).remedy;
        let expect = "curl -i http://127.0.0.1:1/v1/openapi.json";
        assert_eq!(remedy.as_deref(), Some(expect));
        let error = anyhow::anyhow!("no such bucket\n  check the name");
        let bucket = Place::Bucket("nope".to_owned());
        let bucket = access(&DeploymentFacts::without_access(bucket, error.into()));
        assert_eq!(bucket.detail, "no such bucket");
        assert_eq!(bucket.remedy.as_deref(), Some("check the name"));
    }
}
