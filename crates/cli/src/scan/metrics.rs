//! A scan of metrics in a file. No cloud is called, and the rules for nodes without a probe evaluate
//! the machines.

mod read;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use ebb_analysis::evaluate::evaluate;
use ebb_analysis::explain::explain;
use ebb_analysis::facts::Facts;
use ebb_catalog::catalog::Catalogue;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_model::metric_series::MetricSeries;
use ebb_model::policy::Policy;
use ebb_model::sweep_memory::Memory;
use ebb_model::text_file::bad_lines::file_name;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::safe_text::counted;
use jiff::Timestamp;

use super::Scanned;
use crate::{billing, output};
use read::Metrics;

/// The most machines that a report names as not evaluated.
const NAMED_MACHINES: usize = 100;

/// The most machines that are named as ended.
const NAMED_ENDED: usize = 5;

/// The most unused columns that a report names.
const NAMED_COLUMNS: usize = 20;

/// Reads the file, or standard input for `-`, and evaluates it as of its newest row. With
/// `are_percent`, CPU and memory are per cent, although no value is above 1.5.
pub(crate) async fn scan(
    (path, are_percent): (&Path, bool),
    resource: Option<&str>,
    policy: &Policy,
) -> Result<Scanned> {
    let is_input = path.as_os_str() == "-";
    let file: Box<dyn Read> = match is_input {
        true => Box::new(io::stdin()),
        false => {
            let file = File::open(path);
            Box::new(file.with_context(|| format!("failed to read {}", path.display()))?)
        }
    };
    let path = match is_input {
        true => Path::new("standard input"),
        false => path,
    };
    let shown = path.display();
    let read = read::read(file, are_percent).with_context(|| shown.to_string())?;
    output::note_bad_lines(path, &read.bad_lines);
    let Some(now) = read.newest() else {
        return Err(too_few_rows(path, &read));
    };
    let bill = billing::read_export(policy, now).await?;
    let mut gaps = gaps(path, &read);
    gaps.extend(bill.gaps);
    let ended = ended(&read, now, policy);
    if !ended.is_empty() {
        gaps.push(ended_gap(path, &ended, policy));
    }
    let machines = read.machines.iter();
    let instances = machines.map(|(id, about)| {
        let mut instance = Instance::metered(id.clone(), about.clone());
        if ended.contains(id) {
            instance.state = InstanceState::Stopped;
        }
        (id.clone(), instance)
    });
    let inventory = Inventory {
        instances: instances.collect(),
        gaps,
        ..Inventory::default()
    };
    let facts = Facts {
        now,
        state: &FleetState::default(),
        hours: &FleetHours::default(),
        inventory: &inventory,
        metrics: &read.series,
        bill: &bill.by_resource,
        billed: &bill.by_day,
        finished: &[],
        left_out: &[],
        records: &[],
        memory: &Memory::default(),
        policy,
        catalogue: Catalogue::built_in(),
    };
    let explanation = resource.map(|resource| explain(&facts, resource));
    Ok((evaluate(&facts), explanation))
}

fn too_few_rows(path: &Path, read: &Metrics) -> anyhow::Error {
    let (shown, skipped) = (path.display(), read.bad_lines.count());
    match read.rows {
        0 => anyhow!("{shown} has no valid row; skipped {skipped}"),
        rows => anyhow!(
            "{shown} has {}; skipped {skipped}\n  give at least two rows of one machine, because \
             their distance is the length of a row",
            counted(rows, "valid row", "valid rows, each of another machine")
        ),
    }
}

/// Machines whose newest row is older than the time after which a machine is idle. They probably do
/// not run any more: they would have a cost otherwise, and a schedule that nobody needs.
fn ended<'a>(read: &'a Metrics, now: Timestamp, policy: &Policy) -> BTreeSet<&'a NodeId> {
    let after = policy.metrics.idle_after();
    let has_ended = |series: &MetricSeries| {
        let last = series.points().next_back();
        last.is_none_or(|last| {
            Duration::try_from(now.duration_since(last.end)).is_ok_and(|silent| silent > after)
        })
    };
    let ended = read.series.iter().filter(|(_, series)| has_ended(series));
    ended.map(|(id, _)| id).collect()
}

fn ended_gap(path: &Path, ended: &BTreeSet<&NodeId>, policy: &Policy) -> Gap {
    let names: Vec<&str> = ended
        .iter()
        .take(NAMED_ENDED)
        .map(|id| id.as_str())
        .collect();
    let more = match ended.len().saturating_sub(NAMED_ENDED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Gap::new(
        format!("{}: {}{more}", file_name(path), names.join(", ")),
        format!(
            "counted as stopped, because the last rows are over {} min older than the newest of \
             the file (metrics.idle_after_seconds)",
            policy.metrics.idle_after_seconds / 60
        ),
    )
}

/// The unused parts of the file as gaps.
fn gaps(path: &Path, read: &Metrics) -> Vec<Gap> {
    let file = file_name(path);
    let mut gaps = read.bad_lines.gaps(path);
    if read.repeated_rows > 0 {
        let rows = counted(
            read.repeated_rows,
            "row repeats an earlier one",
            "rows repeat earlier ones",
        );
        gaps.push(Gap::new(file.clone(), format!("{rows}; ignored")));
    }
    if !read.missing_columns.is_empty() {
        gaps.push(Gap::new(
            format!("{file}: {}", read.missing_columns.join(", ")),
            "missing, so no node is reported as idle; sizes are evaluated from the existing \
             columns",
        ));
    }
    for id in read.per_core.iter().take(NAMED_MACHINES) {
        gaps.push(Gap::new(
            format!("{file}: {id}"),
            "not evaluated because of CPU above 100 %; cpu_pct is the use of the whole machine, so \
             divide per-core values by the number of cores",
        ));
    }
    for column in &read.perhaps_fractions {
        gaps.push(Gap::new(
            format!("{file}: {column}"),
            "not evaluated, because no value is above 1.5 and the unit is percent (0 to 100); \
             multiply fractions by 100, or confirm percent with --percent",
        ));
    }
    for column in read.unread_columns.iter().take(NAMED_COLUMNS) {
        gaps.push(Gap::new(
            format!("{file}: {column}"),
            "unknown column, ignored",
        ));
    }
    let more = read.unread_columns.len().saturating_sub(NAMED_COLUMNS);
    if more > 0 {
        gaps.push(Gap::new(
            file,
            format!("{more} more unknown columns, ignored"),
        ));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ebb_model::policy::stated_price::StatedPrice;
    use ebb_telemetry::money::UsdPerHour;
    use ebb_telemetry::origin::Origin;

    use super::*;

    fn scan_of(path: &Path, resource: Option<&str>, policy: &Policy) -> Result<Scanned> {
        crate::runtime::runtime()?.block_on(scan((path, false), resource, policy))
    }

    /// Twelve hours of one idle and one working machine, and invalid lines.
    fn file() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut put = |line: String| writeln!(file, "{line}").expect("written");
        put("timestamp,resource_id,cpu_pct,memory_pct,net_in_bytes,net_out_bytes".to_owned());
        for n in 0..144 {
            let at = 1_790_000_000 + n * 300;
            put(format!("{at},rack-1,1.5,43,2000,1000"));
            put(format!("{at},rack-2,71,12,9000000,4000000"));
        }
        put("soon,rack-1,1,1,1,1".to_owned());
        put("1790043500,rack-1,many,1,1,1".to_owned());
        put("1790000000,rack-1,1.5,43,2000,1000".to_owned());
        file
    }

    #[test]
    fn a_machine_whose_own_metrics_are_quiet_is_idle_at_the_price_its_user_states() {
        let file = file();
        let mut policy = Policy::default();
        let (report, _) = scan_of(file.path(), None, &policy).expect("it is read");
        assert_eq!(report.totals.running_instances, 2);
        let [finding] = report.findings.as_slice() else {
            panic!("one is idle: {:?}", report.findings)
        };
        assert_eq!(finding.id, "idle_node/on-premises/rack-1");
        assert_eq!(finding.cost, None);
        let why = &finding.confidence.reason;
        assert!(why.contains("memory usage is at most 43 %"), "{why}");
        let scopes: Vec<_> = report.gaps.iter().map(|gap| gap.scope.clone()).collect();
        let name = file.path().file_name().expect("a name").to_string_lossy();
        assert_eq!(
            scopes,
            [
                format!("{name}:290: timestamp"),
                format!("{name}:291: cpu_pct"),
                name.to_string(),
            ]
        );
        assert_eq!(
            report.gaps[2].reason,
            "1 row repeats an earlier one; ignored"
        );

        let price = UsdPerHour::from_micros(350_000);
        policy.prices = vec![StatedPrice::of_all(price)];
        let (report, explained) =
            scan_of(file.path(), Some("rack-2"), &policy).expect("it is read");
        assert_eq!(report.totals.waste_per_hour, price);
        let cost = report.findings.first().and_then(|one| one.cost.as_ref());
        let basis = cost.map(|cost| cost.basis.to_string());
        assert_eq!(basis.as_deref(), Some("price of --price-per-hour"));
        assert!(explained.is_some_and(|e| e.findings.is_empty() && !e.checks.is_empty()));
    }

    #[test]
    fn a_machine_with_cpu_of_its_cores_is_not_evaluated_on_its_quiet_rows() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut put = |line: String| writeln!(file, "{line}").expect("written");
        put("timestamp,resource_id,cpu_pct,net_in_bytes,net_out_bytes".to_owned());
        for n in 0..288 {
            let at = 1_790_000_000 + n * 300;
            let busy = if n % 50 == 0 { "240" } else { "0.4" };
            put(format!("{at},rack-1,{busy},2000,1000"));
            put(format!("{at},rack-2,0.4,2000,1000"));
        }
        let (report, _) = scan_of(file.path(), None, &Policy::default()).expect("it is read");
        let about: Vec<&str> = report
            .findings
            .iter()
            .map(|f| f.resource.id.as_str())
            .collect();
        assert!(!about.contains(&"rack-1"), "{about:?}");
        let reasons: Vec<&str> = report.gaps.iter().map(|gap| gap.reason.as_str()).collect();
        assert!(
            reasons.iter().any(|why| why.contains("number of cores")),
            "{reasons:?}"
        );
        assert!(
            reasons
                .iter()
                .any(|why| why.contains("no value is above 1.5")),
            "{reasons:?}"
        );
    }

    #[test]
    fn a_type_and_a_region_give_prices_and_a_smaller_type_and_simulated_rows_are_labelled() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut put = |line: String| writeln!(file, "{line}").expect("written");
        let header = "timestamp,resource_id,cpu_pct,memory_pct,net_in_bytes,net_out_bytes";
        put(format!("{header},instance_type,region,simulated"));
        for hour in 0..14 * 24 {
            let at = 1_790_000_000 + hour * 3600;
            put(format!(
                "{at},a,9,20,90000000,9000000,m5.4xlarge,us-east-1,true"
            ));
        }
        let (report, _) = scan_of(file.path(), None, &Policy::default()).expect("it is read");
        assert_eq!(report.origin, Origin::Simulated);
        let [finding] = report.findings.as_slice() else {
            panic!("it is too large: {:?}", report.findings)
        };
        assert_eq!(finding.id, "overprovisioned_node/us-east-1/a");
        assert!(finding.cost.is_some());
    }

    #[test]
    fn columns_that_a_verdict_takes_are_named_where_they_are_missing() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "timestamp,resource_id,cpu_pct\n0,a,2\n300,a,2").expect("written");
        let (report, _) = scan_of(file.path(), None, &Policy::default()).expect("it is read");
        assert!(report.findings.is_empty());
        let [gap] = &report.gaps[..] else {
            panic!("one gap: {:?}", report.gaps)
        };
        assert!(
            gap.scope.ends_with(": net_in_bytes, net_out_bytes"),
            "{gap:?}"
        );
    }

    #[test]
    fn a_machine_whose_rows_end_early_counts_as_stopped() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut put = |line: String| writeln!(file, "{line}").expect("written");
        put("timestamp,resource_id,cpu_pct,net_in_bytes,net_out_bytes".to_owned());
        for hour in 0..28 * 24 {
            let at = 1_790_000_000 + hour * 3600;
            put(format!("{at},live,70,90000000,9000000"));
            // It works at night only, and has been gone for two weeks.
            let cpu = if hour % 24 < 3 { 80 } else { 1 };
            if hour < 14 * 24 {
                put(format!("{at},gone,{cpu},2000,2000"));
            }
        }
        let mut policy = Policy::default();
        let usd = UsdPerHour::from_micros(230_000);
        policy.prices.push(StatedPrice::of_all(usd));
        let (report, _) = scan_of(file.path(), None, &policy).expect("it is read");
        assert_eq!(report.findings, []);
        assert_eq!(report.totals.running_instances, 1);
        let gaps: Vec<_> = report.gaps.iter().map(|gap| &gap.scope).collect();
        assert!(
            gaps.iter().any(|scope| scope.ends_with(": gone")),
            "{gaps:?}"
        );
    }

    #[test]
    fn a_file_without_a_row_to_use_fails_and_says_so() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "timestamp,resource_id,cpu_pct\nsoon,a,1").expect("written");
        let error = scan_of(file.path(), None, &Policy::default()).expect_err("no row");
        assert!(
            error.to_string().ends_with("has no valid row; skipped 1"),
            "{error}"
        );
        let check = |rows: &str, expect: &str| {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            writeln!(file, "timestamp,resource_id,cpu_pct\n{rows}").expect("written");
            let error = scan_of(file.path(), None, &Policy::default()).expect_err("too few rows");
            let error = error.to_string();
            assert!(error.contains(expect), "{error}");
            assert!(
                error.contains("at least two rows of one machine"),
                "{error}"
            );
        };
        check("0,a,1", "has 1 valid row; skipped 0\n");
        let expect = "has 2 valid rows, each of another machine; skipped 1\n";
        check("0,a,1\n0,b,1\nsoon,c,1", expect);
    }
}
