//! Valid and invalid policy files.

use super::*;
use ebb_model::policy::bounds;

fn read_text(text: &str) -> Result<Policy> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.toml");
    std::fs::write(&path, text).expect("a file");
    read(&path)
}

#[test]
fn what_is_wrong_is_named_with_line_and_field() {
    let check = |text: &str, expect: &str| {
        let error = read_text(text).expect_err(expect).to_string();
        let (_, message) = error.split_once("p.toml:").expect("the file");
        assert!(
            message.starts_with(expect),
            "{message}\nshould begin with\n{expect}"
        );
    };
    check(
        "[idle]\nafter = 30\n",
        "2: idle.after: unknown field `after`",
    );
    check(
        "# x\n\n[idel]\nafter_seconds = 30\n",
        "3: idel: unknown field `idel`",
    );
    check(
        "[idle]\nafter_seconds = \"x\"\n",
        "2: idle.after_seconds: invalid type: string \"x\"",
    );
    check(
        "[idle]\n\nafter_seconds = 0\n",
        "3: idle.after_seconds: value 0 must be greater than 0",
    );
    check(
        "[metrics]\ncpu_floor_ppm = 2000000\n",
        "2: metrics.cpu_floor_ppm: value 2000000 must be between 1 and",
    );
    check(
        "[batch]\nno_progress_seconds = -5\n",
        "2: batch.no_progress_seconds: invalid value",
    );
    check("[idle\n", "1: ");
    check(
        "[idle]\nafter_seconds = 9223372036854775807\n",
        "2: idle.after_seconds: value 9223372036854775807 must be at most",
    );
    let price = "[[prices]]\nnode = \"a\"\nusd_micros_per_hour = 1\n";
    check(
        &format!("{price}\n[[prices]]\nnode = \"b\"\nusd_micros_per_hour = 0\n"),
        "5: the price of b: ",
    );
    check(
        "\n[[exempt]]\nuntil = \"9999-12-31\"\nreason = \"x\"\n",
        "2: the exemption of ",
    );
    check(
        "[[route]]\nowner = \"\"\nslack = \"x\"\n",
        "1: the route of ",
    );
}

/// A scan of the demo account, which contains a case for each rule.
fn scan_demo(policy: &Policy) -> ebb_model::report::Report {
    let demo = crate::demo::load(policy).expect("the account is built in");
    let account = ebb_sweep::collect::account::Account {
        inventory: &demo.inventory,
        metrics: Some(&demo.metrics as _),
        bill: Some(&demo.bill as _),
        markets: None,
        prices: None,
        regions: &[],
    };
    let scan = ebb_sweep::scan::scan(&account, &demo.known, policy, demo.now);
    crate::runtime::runtime().expect("a runtime").block_on(scan)
}

#[test]
fn each_value_that_is_accepted_can_be_used() {
    let defaults = thresholds(&Policy::default()).expect("TOML");
    for (table, values) in &defaults {
        let Some(values) = values.as_table() else {
            continue;
        };
        let numbers = values.iter().filter(|(_, value)| value.is_integer());
        let bounds = numbers.filter_map(|(key, _)| Some((key, bounds::of_key(table, key)?)));
        let mut files = [format!("[{table}]\n"), format!("[{table}]\n")];
        for (key, bounds) in bounds {
            files[0].push_str(&format!("{key} = {}\n", bounds.least));
            files[1].push_str(&format!("{key} = {}\n", bounds.most));
        }
        for file in files {
            let policy = Policy::parse(&file).expect("it is within its bounds");
            let report = scan_demo(&policy);
            assert!(report.totals.running_instances > 0, "{file}");
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("nowhere.toml")).expect_err("there is none");
    assert!(format!("{error:#}").starts_with("failed to read nowhere.toml: No such file"));
}

#[test]
fn what_holds_is_shown_with_units_and_what_differs() {
    let mut policy = Policy::default();
    policy.idle.after_seconds = 90;
    let held = thresholds(&policy).expect("TOML");
    let defaults = thresholds(&Policy::default()).expect("TOML");
    let table = threshold_text::as_table(&held, &defaults);
    assert!(table.starts_with("1 of "), "{table}");
    let line = |key: &str| {
        let found = table.lines().find(|line| line.starts_with(key));
        let words: Vec<&str> = found.expect(key).split_whitespace().collect();
        words.join(" ")
    };
    assert_eq!(
        line("idle.after_seconds"),
        "idle.after_seconds 90 90 s default 30 min"
    );
    assert_eq!(
        line("metrics.cpu_floor_ppm"),
        "metrics.cpu_floor_ppm 50000 5 %"
    );
}

#[test]
fn lists_are_counted_by_their_key_and_exemptions_are_shown_elsewhere() {
    let entries = |text: &str| {
        let policy = Policy::parse(text).expect("a policy");
        threshold_text::entries(&thresholds(&policy).expect("TOML"))
    };
    assert_eq!(entries(""), "");
    let price = |node: &str| format!("[[prices]]\nnode = \"{node}\"\nusd_micros_per_hour = 9\n");
    let exempt = "[[exempt]]\nresource = \"i-1\"\nuntil = \"2027-01-01\"\nreason = \"x\"\n";
    assert_eq!(entries(exempt), "");
    let route = "[[route]]\nowner = \"ana\"\nslack = \"lab\"\n";
    assert_eq!(
        entries(&(price("a") + &price("b") + route + exempt)),
        "\nEntries: 2 under [[prices]], 1 under [[route]].\n"
    );
}
