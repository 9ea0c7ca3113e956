//! `ebb findings`: the findings of a deployment, and the decisions about them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use ebb_model::decision::{Decision, Verb};
use ebb_model::finding::Finding;
use ebb_model::finding_history::{SetAside, Stage};
use ebb_model::report::Report;
use ebb_model::savings::{Counted, Sums};

use ebb_report::page::SIMULATED_MEANS;
use ebb_report::page::money::period;
use ebb_report::zone::Zone;

use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::one_line;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::args::{DecideArgs, FindingsArgs, FindingsCommand, TableFormat};
use crate::deployment::{self, Deployment, Source, StoredDeployment, Target, newest_report};
use crate::output::{self, Outcome};
use crate::tune;

use ebb_cloud::documents::decisions;

pub(crate) fn run(args: &FindingsArgs, zone: &Zone) -> Result<Outcome> {
    let ask = |target: &Target| {
        crate::runtime::runtime()?.block_on(async {
            let at = deployment::open(target).await?;
            answer(&at, &args.command, (Timestamp::now(), zone)).await
        })
    };
    let text = match &args.command {
        FindingsCommand::List(of) => match deployment::source(&of.of)? {
            Source::Deployment(target) => ask(&target)?,
            source => match tune::report(&source)? {
                Some(report) => list(&report, None, (of.format, zone)),
                None => return Ok(tune::needs_a_report("findings list")),
            },
        },
        FindingsCommand::Reopen { at, .. } => ask(&deployment::deployment_of(at)?)?,
        FindingsCommand::Dismiss(decide) | FindingsCommand::Snooze(decide) => {
            ask(&deployment::deployment_of(&decide.at)?)?
        }
    };
    output::write(&text, None)?;
    Ok(Outcome::Done)
}

async fn answer(
    at: &Deployment,
    command: &FindingsCommand,
    (now, zone): (Timestamp, &Zone),
) -> Result<String> {
    match command {
        FindingsCommand::List(of) => {
            let report = at.newest_report().await?;
            // A caller may be allowed to read reports and nothing else.
            let decided = at.decisions(now).await.inspect_err(|error| {
                eprintln!("ebb: decisions since the report are not shown: {error:#}");
            });
            Ok(list(&report, decided.ok().as_ref(), (of.format, zone)))
        }
        FindingsCommand::Dismiss(args) => decide(at, (Verb::Dismiss, args), now).await,
        FindingsCommand::Snooze(args) => decide(at, (Verb::Snooze, args), now).await,
        FindingsCommand::Reopen { id, .. } => {
            let was = match at {
                Deployment::Api(api) => api.reopen(id).await?,
                Deployment::Stored(stored) => {
                    let objects = stored.objects.as_ref();
                    decisions::change(objects, |all| all.reopen(id, now)).await?
                }
            };
            Ok(format!(
                "Reopened {}; removed the decision of {}: {}\n",
                one_line(id),
                one_line(&was.by),
                one_line(&was.reason)
            ))
        }
    }
}

async fn decide(
    at: &Deployment,
    (verb, args): (Verb, &DecideArgs),
    now: Timestamp,
) -> Result<String> {
    match at {
        Deployment::Stored(stored) => store(stored, (verb, args), now).await?,
        Deployment::Api(api) => {
            let why = (args.reason.as_str(), args.until);
            api.decide(&args.id, verb, why).await?;
        }
    }
    let until = args.until.map(|until| format!(" until {until}"));
    Ok(format!(
        "{} is {}{}. The pages and the API show this now, reports and alerts from the next sweep on.\n",
        one_line(&args.id),
        verb.done(),
        until.unwrap_or_default()
    ))
}

/// The id must be in the newest report: a misspelt id would set nothing aside.
async fn store(
    stored: &StoredDeployment,
    (verb, args): (Verb, &DecideArgs),
    now: Timestamp,
) -> Result<()> {
    let objects = stored.objects.as_ref();
    let report = newest_report(objects).await?;
    let aside = report.history.set_aside.iter().map(|one| &one.finding);
    if !report
        .findings
        .iter()
        .chain(aside)
        .any(|finding| finding.id == args.id)
    {
        bail!(
            "the newest report ({}) has no finding {}\n  `ebb findings list` shows all findings",
            report.at,
            args.id
        );
    }
    let decision = Decision {
        verb,
        reason: args.reason.clone(),
        by: stored.who.clone(),
        at: now,
        until: args.until,
    };
    let decide = |all: &mut ebb_model::decision::Decisions| all.decide(&args.id, decision.clone());
    decisions::change(objects, decide).await?;
    Ok(())
}

/// A finding with its stage, in JSON.
#[derive(Serialize)]
struct ListedFinding<'r> {
    stage: &'static str,
    /// `None` if no earlier sweep is known.
    first_seen: Option<Timestamp>,
    /// The decision that sets it aside.
    decision: Option<&'r Decision>,
    #[serde(flatten)]
    finding: &'r Finding,
}

/// The findings, and those that decisions set aside. `decided` has the decisions that are in effect.
/// Without it, those of the report count.
fn list(
    report: &Report,
    decided: Option<&BTreeMap<String, Decision>>,
    (format, zone): (TableFormat, &Zone),
) -> String {
    let aside = report.history.set_aside.iter();
    let aside = aside.map(|one| (&one.finding, Some(&one.decision)));
    let found = report.findings.iter().map(|finding| (finding, None));
    let listed = found.chain(aside).map(|(finding, of_report)| {
        let standing = report.history.life.get(&finding.id);
        let decision = match decided {
            Some(decided) => decided.get(&finding.id),
            None => of_report,
        };
        let stage = match decision {
            Some(decision) => decision.verb.done(),
            None if of_report.is_some() => Stage::Due.word(),
            None => standing.map_or("found", |standing| standing.stage.word()),
        };
        ListedFinding {
            stage,
            first_seen: standing.map(|standing| standing.first_seen),
            decision,
            finding,
        }
    });
    let listed: Vec<ListedFinding<'_>> = listed.collect();
    match format {
        TableFormat::Table => match report.origin {
            Origin::Simulated => {
                format!("{SIMULATED_MEANS}\n\n{}", table(&listed, (report.at, zone)))
            }
            Origin::Measured => table(&listed, (report.at, zone)),
        },
        TableFormat::Csv => match decided {
            Some(decided) => ebb_report::csv::csv(&undecided(report, decided)),
            None => ebb_report::csv::csv(report),
        },
        TableFormat::Json => output::json(&json!({
            "schema": "ebb.finding_list/1",
            "at": report.at,
            "findings": listed,
        })),
    }
}

/// The report with exactly those findings that no decision sets aside now. Its totals do not contain
/// findings whose decision was withdrawn: other findings may already contain the same cost.
fn undecided(report: &Report, decided: &BTreeMap<String, Decision>) -> Report {
    let mut left = report.clone();
    for SetAside { mut finding, .. } in std::mem::take(&mut left.history.set_aside) {
        if let Some(standing) = left.history.life.get_mut(&finding.id) {
            standing.stage = Stage::Due;
        }
        if let Some(cost) = &mut finding.cost {
            cost.counted = Some(Counted {
                sums: Sums::default(),
                rest_counted_by: None,
            });
        }
        left.findings.push(finding);
    }
    left.findings
        .retain(|finding| !decided.contains_key(&finding.id));
    left
}

/// One line for each finding: its stage, its saving and its id. A second line has the decision that sets
/// it aside.
fn table(listed: &[ListedFinding<'_>], (at, zone): (Timestamp, &Zone)) -> String {
    let mut out = format!("Report of {}\n", zone.minute(at));
    if listed.is_empty() {
        out.push_str("No findings.\n");
        return out;
    }
    out.push_str(&format!("\n{:<10}{:>14}  ID\n", "STATE", "SAVING A MONTH"));
    for one in listed {
        let (stage, finding) = (one.stage, one.finding);
        let cost = finding.cost.as_ref();
        let saving = cost.map_or("unknown".to_owned(), |cost| {
            let sign = if cost.basis.is_bound() { "≤ " } else { "" };
            let saving = format!("{sign}{}", cost.saving_a_month);
            match finding.saving_covers() {
                Some(_) => format!("{saving} {}", period([finding])),
                None => saving,
            }
        });
        let id = one_line(&finding.id);
        out.push_str(&format!("{stage:<10}{saving:>14}  {id}\n"));
        if let Some(decision) = one.decision {
            let (by, reason) = (one_line(&decision.by), one_line(&decision.reason));
            let until = decision
                .until
                .map(|until| format!(" until {}", zone.minute(until)));
            let until = until.unwrap_or_default();
            out.push_str(&format!("{:26}by {by}{until}: {reason}\n", ""));
        }
    }
    let mut costs = listed.iter().filter_map(|one| one.finding.cost.as_ref());
    let bound = match costs.any(|cost| cost.basis.is_bound()) {
        true => "≤: at most. ",
        false => "",
    };
    out.push_str(&format!(
        "\n{bound}`ebb explain ID` shows how a finding was evaluated.\n"
    ));
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;
    use ebb_api::service::Service;
    use ebb_catalog::catalog::Catalogue;
    use ebb_cloud::documents::report_files::LATEST_JSON;
    use ebb_cloud::fake::{FakeClock, FakeObjects};
    use ebb_model::decision::Decisions;
    use ebb_model::finding_history::Lives;
    use ebb_model::inventory::Inventory;
    use ebb_model::policy::Policy;

    use super::*;
    use crate::args::{Args, Command};

    /// The demo's findings as a deployment would report them.
    async fn swept(objects: &FakeObjects) -> Report {
        let policy = Policy::default();
        let demo = crate::demo::load(&policy).expect("the demo");
        let account = ebb_sweep::collect::account::Account {
            inventory: &demo.inventory,
            metrics: None,
            bill: None,
            markets: None,
            prices: None,
            regions: &[],
        };
        let scanned = ebb_sweep::scan::scan(&account, &demo.known, &policy, demo.now);
        let mut report = scanned.await;
        let decisions = decisions::load(objects).await.expect("it answers");
        let known = (&Inventory::default(), Catalogue::built_in());
        Lives::default().advance(&mut report, known, &decisions);
        objects.insert(LATEST_JSON, serde_json::to_vec(&report).expect("JSON"));
        report
    }

    async fn run(objects: &FakeObjects, line: &[&str]) -> Result<String> {
        let words = ["ebb", "findings"].iter().chain(line);
        let args = Args::try_parse_from(words.chain(&["--bucket", "b"]))?;
        let Command::Findings(args) = args.command else {
            bail!("another command");
        };
        let now = "2026-11-21T12:00:00Z".parse().expect("a time");
        let at = Deployment::Stored(StoredDeployment {
            objects: Arc::new(objects.clone()),
            who: "ana".to_owned(),
        });
        answer(&at, &args.command, (now, &Zone::utc())).await
    }

    #[tokio::test]
    async fn the_same_decisions_are_possible_over_the_api() {
        let objects = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        let id = swept(&objects).await.findings[0].id.clone();
        let client = deployment::local_api(Service::new(Arc::new(objects.clone())));
        let at = Deployment::Api(client);
        let run = async |line: &[&str]| {
            let words = ["ebb", "findings"].iter().chain(line);
            let args = Args::try_parse_from(words)?;
            let Command::Findings(args) = args.command else {
                bail!("another command");
            };
            answer(&at, &args.command, (Timestamp::now(), &Zone::utc())).await
        };
        let listed = run(&["list"]).await.expect("listed");
        assert!(listed.contains(&id), "{listed}");
        assert!(listed.starts_with("SIMULATED: "), "{listed}");
        assert!(
            listed.contains("\nSTATE     SAVING A MONTH  ID\n"),
            "{listed}"
        );
        assert!(
            listed.contains("\n≤: at most. `ebb explain ID`"),
            "{listed}"
        );
        let dismiss = ["dismiss", &id, "--reason", "a course"];
        let text = run(&dismiss).await.expect("decided");
        assert!(text.starts_with(&format!("{id} is dismissed. ")), "{text}");
        let listed = run(&["list"]).await.expect("listed");
        assert!(
            listed.contains("dismissed "),
            "before the next sweep: {listed}"
        );
        let held: Decisions = decisions::load(&objects).await.expect("it answers");
        assert_eq!(held.findings[&id].reason, "a course");
        let text = run(&["reopen", &id]).await.expect("taken back");
        assert!(text.contains("removed the decision of"), "{text}");
        let error = run(&["reopen", &id]).await.expect_err("there is none");
        assert!(
            error.to_string().contains("HTTP 404: No decision"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_finding_whose_decision_was_withdrawn_since_the_report_is_due_again() {
        let objects = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        let id = swept(&objects).await.findings[0].id.clone();
        let dismiss = ["dismiss", &id, "--reason", "a course"];
        run(&objects, &dismiss).await.expect("decided");
        let report = swept(&objects).await;
        let of_report = |format| list(&report, None, (format, &Zone::utc()));
        let listed = of_report(TableFormat::Table);
        assert!(listed.contains("\ndismissed "), "{listed}");
        assert!(listed.contains("by ana: a course"), "{listed}");
        assert!(!of_report(TableFormat::Csv).contains(&id));
        run(&objects, &["reopen", &id]).await.expect("taken back");
        let listed = run(&objects, &["list"]).await.expect("listed");
        assert!(listed.contains("\ndue again "), "{listed}");
        assert!(!listed.contains("by ana"), "{listed}");
        let csv = run(&objects, &["list", "--format", "csv"]).await;
        let csv = csv.expect("listed");
        let mut rows = csv.lines().filter(|line| line.contains(&id));
        assert!(rows.any(|row| row.contains(",due,")), "{csv}");
    }

    #[tokio::test]
    async fn a_finding_is_set_aside_and_taken_back_and_a_misspelt_one_is_refused() {
        let objects = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        assert!(run(&objects, &["list"]).await.is_err(), "no report yet");
        let id = swept(&objects).await.findings[0].id.clone();
        let snooze = [
            "snooze",
            &id,
            "--reason",
            "a course",
            "--until",
            "2026-12-01",
        ];
        let text = run(&objects, &snooze).await.expect("decided");
        assert!(
            text.contains("is snoozed until 2026-12-02T00:00:00Z. "),
            "{text}"
        );
        let listed = run(&objects, &["list"]).await.expect("listed");
        assert!(
            listed.contains("snoozed ") && listed.contains("by ana until "),
            "before the next sweep: {listed}"
        );
        let csv = run(&objects, &["list", "--format", "csv"]).await;
        assert!(!csv.expect("listed").contains(&id));
        let json = run(&objects, &["list", "--format", "json"]).await;
        let json: serde_json::Value = serde_json::from_str(&json.expect("listed")).expect("JSON");
        assert_eq!(json["findings"][0]["id"], *id);
        assert_eq!(json["findings"][0]["stage"], "snoozed");
        assert_eq!(json["findings"][0]["decision"]["reason"], "a course");
        assert!(json["findings"][0]["first_seen"].is_string());
        let held: Decisions = decisions::load(&objects).await.expect("it answers");
        assert_eq!(held.findings[&id].by, "ana");
        let report = swept(&objects).await;
        assert!(report.findings.iter().all(|finding| finding.id != id));
        let listed = run(&objects, &["list"]).await.expect("listed");
        assert!(listed.contains("snoozed"), "{listed}");
        let text = run(&objects, &["reopen", &id]).await.expect("taken back");
        assert!(
            text.contains("removed the decision of ana: a course"),
            "{text}"
        );
        for (line, expect) in [
            (
                ["dismiss", "idle_node/x/i-1", "--reason", "a"].as_slice(),
                "has no finding",
            ),
            (&["snooze", &id, "--reason", "a"], "--until <DAY>"),
            (&["dismiss", &id], "--reason"),
            (&["reopen", &id], "no decision about"),
            (
                &["snooze", &id, "--reason", "a", "--until", "soon"],
                "neither a day",
            ),
        ] {
            let error = run(&objects, line).await.expect_err(expect);
            assert!(format!("{error:#}").contains(expect), "{error:#}");
        }
    }
}
