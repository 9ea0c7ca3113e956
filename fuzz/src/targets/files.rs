//! Files that users give: the policy, metrics, bills and records of workflow engines.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::OnceLock;

use ebb_cloud::billing_export::BillingExport;
use ebb_cloud::cost_export::CostExport;
use ebb_cloud::ports::BillSource;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_model::task_record::TaskRecord;
use ebb_telemetry::units::Bytes;
use ebb_workflows::import::pattern::{FileNaming, PathPattern};
use ebb_workflows::import::snakefile::Snakefile;
use ebb_workflows::import::task_names::{NameSettings, TaskNames};
use ebb_workflows::import::{Import, Kind, Source};
use jiff::Timestamp;

use crate::Outcome;
use crate::evaluate::{Before, render_all};
use crate::support::{block_on, first_line, with_file};

/// The report of the demo account.
pub(super) fn demo_report() -> Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    let report = || block_on(ebb::readers::scan_demo(&Policy::default())).expect("the demo");
    REPORT.get_or_init(report).clone()
}

/// A policy; one that is taken evaluates the demo account.
pub(super) fn policy(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let policy = Policy::parse(&text);
    if let Ok(policy) = &policy
        && let Ok(report) = block_on(ebb::readers::scan_demo(policy))
    {
        render_all(&report, &Before::default());
    }
    Outcome::from_result(&policy)
}

pub(super) fn policies() -> Vec<Vec<u8>> {
    let policies = [
        "[idle]\nafter_seconds = 1800\nmin_coverage_ppm = 950000\n",
        "[activity]\ntick_seconds = 60\n\n[overprovisioned]\nmin_wall_seconds = 600\n",
        "[sizing]\nmin_runs = 3\n\n[[exempt]]\nresource = \"i-0abc\"\nuntil = \"2027-01-31\"\nreason = \"licence\"\n",
        "[[prices]]\nnode = \"rack-*\"\nusd_micros_per_hour = 1250000\n",
        "[placement]\nregions = [\"us-east-1\"]\nspot = true\n[gpu]\nidle_after_seconds = 60\n",
        "",
    ];
    policies.map(|policy| policy.as_bytes().to_vec()).to_vec()
}

/// Metrics as CSV.
pub(super) fn metrics_csv(input: &[u8]) -> Outcome {
    let policy = Policy::default();
    let report = with_file(input, |path| {
        block_on(ebb::readers::scan_metrics(path, &policy))
    });
    if let Ok(report) = &report {
        // The name of the file is not from the input.
        render_all(report, &Before::default());
    }
    Outcome::from_result(&report)
}

pub(super) fn metrics() -> Vec<Vec<u8>> {
    let head = "timestamp,resource_id,cpu_pct,memory_pct,net_in_bytes,net_out_bytes,\
                disk_read_bytes,disk_write_bytes,instance_type,region,simulated\n";
    let row = |hour: i64, cpu: f64| {
        let at = 1_790_000_000 + hour * 3_600;
        format!("{at},i-1,{cpu},43,2000,1000,10,20,m5.large,us-east-1,false\n")
    };
    let idle: String = (0..40).map(|hour| row(hour, 0.5)).collect();
    let busy: String = (0..8).map(|hour| row(hour, 95.0)).collect();
    let plain = "timestamp,resource_id,cpu_pct\n2026-09-21T10:00:00Z,rack-1,1.5\n";
    let texts = [
        format!("{head}{idle}"),
        format!("{head}{busy}"),
        plain.to_owned(),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// Rows of Google's billing export.
pub(super) fn billing_export(input: &[u8]) -> Outcome {
    let tags = BTreeSet::from(["project".to_owned()]);
    let now: Timestamp = "2026-09-10T00:00:00Z".parse().expect("a time");
    let bill = with_file(input, |path| BillingExport::read(path, &tags));
    if let Ok(bill) = &bill {
        let names: Vec<String> = tags.iter().cloned().collect();
        block_on(bill.by_resource(now)).expect("it needs no service");
        block_on(bill.by_day(now, &names)).expect("it needs no service");
        bill.gaps(now);
    }
    Outcome::from_result(&bill)
}

pub(super) fn bills() -> Vec<Vec<u8>> {
    let row = |day: u8| {
        format!(
            r#"{{"service":{{"description":"Compute Engine"}},"usage_start_time":"2026-09-{day:02} 05:00:00 UTC","cost":1.25,"currency":"USD","currency_conversion_rate":1,"credits":[{{"amount":-0.05}}],"cost_type":"regular","labels":[{{"key":"project","value":"tides"}}],"resource":{{"global_name":"//compute.googleapis.com/projects/4/zones/z-a/instances/11"}}}}"#
        )
    };
    let lines = (1..9).map(row).collect::<Vec<_>>().join("\n");
    let csv = "service_description,usage_start_time,resource_global_name,cost,currency,credits_amount\n\
               Compute Engine,2026-09-01 05:00:00,//compute.googleapis.com/projects/4/zones/z-a/instances/11,0.25,USD,-0.05\n\
               Cloud Storage,2026-09-02,,0.5,USD,\n";
    vec![lines.into_bytes(), csv.as_bytes().to_vec()]
}

/// Rows of a CUR or FOCUS export as CSV, in a folder without months.
pub(super) fn cost_export(input: &[u8]) -> Outcome {
    let tags = BTreeSet::from(["project".to_owned()]);
    let now: Timestamp = "2026-09-10T00:00:00Z".parse().expect("a time");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("bill.csv"), input).expect("written");
    let days = block_on(async {
        let place = folder.path().to_string_lossy();
        let export = CostExport::open(&place, &tags).expect("a folder");
        export.by_resource(now).await.expect("it needs no service");
        let days = export.by_day(now, &[]).await.expect("it needs no service");
        for day in &days {
            let services = day.by_service.values().copied().sum();
            assert_eq!(day.total, services, "a day adds up");
        }
        export.gaps(now);
        days
    });
    let read = if days.is_empty() {
        Err("no day")
    } else {
        Ok(days)
    };
    Outcome::from_result(&read)
}

pub(super) fn cost_exports() -> Vec<Vec<u8>> {
    let cur = "line_item_usage_start_date,line_item_usage_end_date,line_item_line_item_type,\
               line_item_product_code,line_item_currency_code,line_item_unblended_cost,\
               line_item_resource_id,reservation_effective_cost,resource_tags\n\
               2026-09-01T05:00:00Z,2026-09-01T06:00:00Z,Usage,AmazonEC2,USD,0.25,i-0123456789abcdef0,,\n\
               2026-09-02T05:00:00Z,2026-09-02T06:00:00Z,DiscountedUsage,AmazonEC2,USD,0,i-0123456789abcdef0,1.5E-3,\n";
    let focus = "ChargePeriodStart,ChargePeriodEnd,EffectiveCost,BillingCurrency,ServiceName,\
                 ServiceCategory,ChargeCategory,ResourceId,Tags\n\
                 2026-09-01T00:00:00Z,2026-09-02T00:00:00Z,2.5,USD,Machines,Compute,Usage,rack-3,\"{\"\"project\"\":\"\"tides\"\"}\"\n\
                 2026-09-01T00:00:00Z,2026-10-01T00:00:00Z,30,USD,Support,Other,Usage,,\n";
    [cur, focus].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Records of workflow engines: the first line is the path of the file.
pub(super) fn workflow_records(input: &[u8]) -> Outcome {
    let (path, bytes) = first_line(input);
    let kinds = [
        None,
        Some(Kind::Nextflow),
        Some(Kind::Snakemake),
        Some(Kind::Sacct),
        Some(Kind::Squeue),
    ];
    let mut outcome = Outcome::Refused;
    for kind in kinds {
        let mut naming = FileNaming::default();
        if let Ok(pattern) = PathPattern::new("benchmarks/{sample}.{rule}.txt") {
            naming.set_general(pattern);
        }
        let mut import = Import::new(naming);
        let source = Source {
            path: &path,
            kind,
            modified: Some(Timestamp::UNIX_EPOCH),
        };
        let mut names = TaskNames::new(NameSettings {
            now: Timestamp::MAX,
            ..NameSettings::default()
        });
        if names
            .read(&source, Cursor::new(bytes.to_vec()), |_| ())
            .is_ok()
        {
            for record in names.finish() {
                let json = serde_json::to_string(&record).expect("JSON");
                let back: Result<TaskRecord, _> = serde_json::from_str(&json);
                assert_eq!(back.ok(), Some(record));
            }
        }
        if import
            .read(&source, Cursor::new(bytes.to_vec()), |_| ())
            .is_err()
        {
            continue;
        }
        outcome = Outcome::Accepted;
        let imported = import.finish();
        let _ = (imported.totals(), imported.failures());
        for size in [None, Some(Bytes(u64::MAX))] {
            let advice = imported.advice(size);
            assert!(advice.len() <= imported.steps.len());
        }
    }
    outcome
}

pub(super) fn records() -> Vec<Vec<u8>> {
    let mut trace =
        "trace.txt\ntask_id\thash\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\t\
                     peak_rss\tcpus\tmemory\ttime\tattempt\trchar\n"
            .to_owned();
    for number in 0..24 {
        let status = if number % 5 == 0 {
            "FAILED\t137"
        } else {
            "COMPLETED\t0"
        };
        trace.push_str(&format!(
            "{number}\tab/{number:06x}\tALIGN (s{number})\t{status}\t2026-03-01 08:00:00.000\t10m\t9m 30s\t98.5%\t2.{number} GB\t4\t8 GB\t4h\t1\t1 GB\n"
        ));
    }
    let sacct = "sacct.txt\nJobID|JobName|Comment|State|ExitCode|Elapsed|TotalCPU|MaxRSS|ReqMem|AllocCPUS|NTasks|NNodes|Submit|Start|End|Timelimit|WorkDir\n\
                 7|nf-ALIGN_(s1)||COMPLETED|0:0|01:00:00|03:30:00||8G|4||1|2026-03-01T08:00:00|2026-03-01T08:00:10|2026-03-01T09:00:10|04:00:00|/w\n\
                 7.batch|batch||COMPLETED|0:0|01:00:00|03:30:00|2000000K||4|1|1|2026-03-01T08:00:00|2026-03-01T08:00:10|2026-03-01T09:00:10||/w\n\
                 8_[1-9%2]|align||OUT_OF_MEMORY|0:125|1-00:00:01|00:01.5|1.5G|2Gc|2||1|Unknown|Unknown|Unknown|UNLIMITED|/w\n";
    let benchmark = "benchmarks/s1.bwa.txt\ns\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n\
                     12.5\t0:00:12\t100.5\t200.0\t90.0\t95.0\t1.0\t2.0\t350.0\t43.0\n";
    let extended = "b.jsonl\n{\"s\": 12.5, \"h:m:s\": \"0:00:12\", \"max_rss\": 100.5, \"cpu_time\": 43.0, \"mean_load\": 350.0, \"rule_name\": \"bwa\", \"threads\": 4, \"resources\": {\"mem_mb\": 2000}, \"wildcards\": {\"sample\": \"s1\"}, \"jobid\": 3}\n";
    let texts = [
        trace,
        sacct.to_owned(),
        benchmark.to_owned(),
        extended.to_owned(),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// The rules of a Snakefile as Snakemake lists them, and a benchmark file of one of them: the
/// first line is its path.
pub(super) fn snakefile(input: &[u8]) -> Outcome {
    let (path, listing) = first_line(input);
    let snakefile = Snakefile::read(listing);
    let outcome = Outcome::from_result(&snakefile);
    if let Ok(snakefile) = snakefile {
        let mut import = Import::default().with_snakefile(snakefile);
        let source = Source {
            path: &path,
            kind: Some(Kind::Snakemake),
            modified: None,
        };
        let text = b"s\th:m:s\tmax_rss\tmean_load\tcpu_time\n12.5\t0:00:12\t100.5\t350.0\t43.0\n";
        if import
            .read(&source, Cursor::new(text.to_vec()), |_| ())
            .is_ok()
        {
            let _ = import.finish().advice(None);
        }
    }
    let _ = PathPattern::new(&path);
    outcome
}

pub(super) fn snakefiles() -> Vec<Vec<u8>> {
    let listing = r#"bench/s1.txt
{"snakemake": "9.27.1", "rules": [
 {"name": "bwa", "benchmark": "bench/{sample,(?!x)[a-z]+}.txt", "threads": 4, "mem_mb": 2000, "runtime_minutes": 30},
 {"name": "sort", "benchmark": "bench/{a}/{b}.sort.txt", "threads": 1, "mem_mb": 2e9, "runtime_minutes": 0.5},
 {"name": "all", "benchmark": null, "threads": null, "mem_mb": null, "runtime_minutes": null}]}"#;
    vec![listing.as_bytes().to_vec()]
}
