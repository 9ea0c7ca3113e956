//! Size limits of all forms for reports with no, one and very many findings. `EBB_LOOK=DIR` writes
//! all forms to a directory for a check in a browser.

use ebb_model::report::Report;
use ebb_model::report::bill_day::BilledDayShares;
use ebb_model::report::timeline::{NodeHours, Timeline};
use ebb_report::html::html;
use ebb_report::zone::Zone;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::Usd;
use jiff::ToSpan;
use jiff::civil::Date;

use crate::email_digest::email;
use crate::message_form::MessageForm;
use crate::slack_digest::slack;
use crate::testing;
use crate::welcome::{Hello, email_hello, slack_hello};

/// A name with characters that are special in each form.
const HOSTILE: &str = "<b>x</b>|**b** _i_ `c` ~s~ [l](http://a) <!channel> & \u{202e}txt.exe\u{2067} \
     \u{1f4a5}\u{1f469}\u{200d}\u{1f52c} a\r\nb\tc \u{1b}[31m =cmd() ";

/// Files of each report.
const KINDS: [&str; 6] = [
    "slack.json",
    "slack-hello.json",
    "report.html",
    "email.html",
    "email-hello.html",
    "email.txt",
];

/// Number of findings in the largest report.
const MANY: usize = 10_000;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn whatever_a_report_holds_each_form_stays_within_what_its_reader_takes() {
    let check = |name: &str, report: &Report, page_kb: usize| {
        // A message needs at least one change: without findings some were resolved.
        let mut news = testing::all_new(report);
        if report.findings.is_empty() {
            news.resolved = ebb_report::testing::several_days().history.resolved;
        }
        let page = html(report, &Zone::utc());
        assert!(page.len() < page_kb << 10, "{name}: {} bytes", page.len());
        let hello = Hello::from_report(report, None, Some(true));
        let chats = [
            slack(report, &news, &MessageForm::default()),
            slack_hello(&hello),
        ];
        let mails = [email(report, &news, None), email_hello(&hello)];
        for chat in &chats {
            let blocks = chat["blocks"].as_array().expect("blocks");
            let whole = chat.to_string().chars().count();
            assert!(blocks.len() <= 50 && whole <= 12_000, "{name}: {whole}");
            let texts = blocks.iter().filter_map(|b| {
                let part = b["elements"].get(0).unwrap_or(&b["text"]);
                part["text"].as_str().or(part.as_str())
            });
            for text in texts {
                let most = if text.starts_with('[') { 150 } else { 3_000 };
                assert!(!text.is_empty() && text.chars().count() <= most, "{name}");
            }
        }
        for mail in &mails {
            // Gmail truncates a message larger than 102 KB.
            assert!(mail.html.len() < 100 << 10, "{name}: {}", mail.html.len());
            assert!(mail.text.len() < 64 << 10, "{name}: {}", mail.text.len());
            assert!(mail.subject.chars().count() < 150 && !mail.subject.contains(['\r', '\n']));
        }
        let documents = [&page, &mails[0].html, &mails[1].html, &mails[0].text];
        let mut written = vec![chats[0].to_string(), chats[1].to_string()];
        written.extend(documents.into_iter().cloned());
        keep(name, &written);
        for (text, kind) in written.iter().zip(KINDS) {
            let turns = |c: char| matches!(c, '\u{1b}' | '\u{202e}' | '\u{2067}');
            assert!(!text.contains(turns), "{name}.{kind}");
            let markup = ["<b>", "<!channel"].iter().any(|tag| text.contains(tag));
            assert!(kind == "email.txt" || !markup, "{name}.{kind}");
        }
    };
    check("nothing", &ebb_report::testing::empty(), 16);
    check(
        "few",
        &with_bill(with_hours(ebb_report::testing::several_days(), 3)),
        48,
    );
    let hostile_bill = hostile(with_bill(with_hours(
        ebb_report::testing::several_days(),
        3,
    )));
    check("hostile", &hostile_bill, 128);
    check(
        "one",
        &with_hours(hostile(ebb_report::testing::many(1)), 1),
        64,
    );
    check(
        "many",
        &with_hours(ebb_report::testing::many(MANY), 100),
        1_024,
    );
    check(
        "many-hostile",
        &with_hours(hostile(ebb_report::testing::many(MANY)), 100),
        4_096,
    );
}

/// Replaces every external text with hostile text, and makes the name long without a space.
fn hostile(mut report: Report) -> Report {
    let long = format!("{HOSTILE}{}", "x".repeat(300));
    let word = || Some(long.clone());
    for day in &mut report.ledger {
        day.day.clone_from(&long);
    }
    for finding in &mut report.findings {
        for step in &mut finding.steps {
            step.name.clone_from(&long);
            step.node.clone_from(&long);
        }
        finding.resource.name = word();
        finding.resource.owner = word();
        finding.resource.node = word();
        finding.confidence.reason.clone_from(&long);
        finding.remedy.advice.clone_from(&long);
        finding.remedy.command = word();
    }
    for one in &mut report.not_evaluated {
        one.name = word();
        one.reason.clone_from(&long);
    }
    for gap in &mut report.gaps {
        gap.reason.clone_from(&long);
    }
    for one in &mut report.history.set_aside {
        one.finding.resource.name = word();
        one.decision.by.clone_from(&long);
        one.decision.reason.clone_from(&long);
    }
    for one in &mut report.history.resolved {
        one.name = word();
    }
    report
}

/// 14 days of office hours, with a gap, an idle weekend, and a node that was observed later.
fn with_hours(mut report: Report, nodes: usize) -> Report {
    let names = report.findings.iter().map(|f| f.resource.name.clone());
    let names: Vec<_> = names.chain(std::iter::repeat(None)).take(nodes).collect();
    let hours = |node: usize| {
        let hour = move |n: usize| match (n / 24 % 7, n % 24) {
            _ if node % 3 == 1 && n < 200 => None,
            (2, 3..9) => None,
            (day, at) if day < 5 && (8..18).contains(&at) => {
                u8::try_from((at * 13 + node * 7 + n) % 101).ok()
            }
            _ => Some(0),
        };
        (0..13 * 24 + 12).map(hour).collect()
    };
    let node_hours = names.into_iter().enumerate().map(|(n, name)| NodeHours {
        node: NodeId::new(format!("i-{n:017x}")).expect("an id"),
        name,
        hours: hours(n),
    });
    report.timeline = Timeline {
        from: Some("2026-02-19T00:00:00Z".parse().expect("a time")),
        nodes: node_hours.collect(),
        left_out: 7,
    };
    report
}

/// A bill of 14 days; the last two days are incomplete.
fn with_bill(mut report: Report) -> Report {
    report.ledger = (0..14).map(billed).collect();
    report
}

/// One day of the bill; a weekend costs less, and its second day has a credit.
fn billed(n: i64) -> BilledDayShares {
    let first = Date::constant(2026, 2, 19);
    let day = first.checked_add(n.days()).unwrap_or(first);
    let weight = if n % 7 == 2 || n % 7 == 3 { 3 } else { 10 };
    let usd = |dollars: i64| Usd::from_micros(dollars * weight * 100_000);
    let [steps, other_work, findings, idle] = [31, 17, 22, 9].map(usd);
    let elsewhere = match n {
        3 => usd(-4),
        _ => usd(6 + n % 3),
    };
    BilledDayShares {
        day: day.to_string(),
        billed: [steps, other_work, findings, idle, elsewhere]
            .into_iter()
            .sum(),
        steps,
        other_work,
        findings,
        idle,
        elsewhere,
        estimated: n > 11,
        ..BilledDayShares::default()
    }
}

fn keep(name: &str, written: &[String]) {
    let Some(folder) = std::env::var_os("EBB_LOOK").map(std::path::PathBuf::from) else {
        return;
    };
    for (kind, text) in KINDS.iter().zip(written) {
        std::fs::write(folder.join(format!("{name}.{kind}")), text).expect("it is written");
    }
}

#[test]
fn every_form_says_the_same_total_and_its_parts_add_up_to_it() {
    let report = ebb_report::testing::overlapping();
    let (known, at_most) = (
        report.totals.saving_a_month,
        report.totals.at_most.saving_a_month,
    );
    let line = format!("{known} a month, and at most {at_most} more, in 12 findings");
    let news = testing::all_new(&report);
    let mail = email(&report, &news, None);
    let forms = [
        ebb_report::table::table(
            &report,
            &ebb_report::terminal_style::TerminalStyle::PLAIN,
            &Zone::utc(),
        ),
        ebb_report::markdown::markdown(&report, &Zone::utc()),
        slack(&report, &news, &MessageForm::default()).to_string(),
        mail.subject,
        mail.text,
    ];
    for form in forms {
        assert!(form.contains(&line), "no {line} in\n{form}");
    }
    for page in [html(&report, &Zone::utc()), mail.html] {
        assert!(
            page.contains(&format!("{known}")) && page.contains(&format!("at most {at_most} more"))
        );
    }
    let value: serde_json::Value =
        serde_json::from_str(&ebb_report::json::json(&report)).expect("JSON");
    let of_json = |value: &serde_json::Value| value.as_str().and_then(Usd::parse);
    let totals = &value["totals"];
    assert_eq!(of_json(&totals["saving_a_month_usd"]), Some(known));
    assert_eq!(
        of_json(&totals["at_most"]["saving_a_month_usd"]),
        Some(at_most)
    );
    let text = ebb_report::csv::csv(&report);
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let place = head
        .iter()
        .rev()
        .position(|name| *name == "counted_saving_a_month_usd");
    let place = place.expect("a column");
    let counted = lines.filter_map(|cells| Usd::parse(cells[cells.len() - 1 - place]));
    assert_eq!(counted.sum::<Usd>(), known + at_most);
    let of_owner = |owner: &str| report.part(|one| one == Some(owner)).totals;
    let parts = ["owner-0", "owner-1", "owner-2"].map(of_owner);
    let sums = |of: fn(&ebb_model::report::Totals) -> Usd| parts.iter().map(of).sum::<Usd>();
    assert_eq!(sums(|totals| totals.saving_a_month), known);
    assert_eq!(sums(|totals| totals.at_most.saving_a_month), at_most);
}
