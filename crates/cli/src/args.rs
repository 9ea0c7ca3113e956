//! What the program can be told, and the help that says so.

mod catalog;
mod findings;
mod sweep;
mod tune;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use ebb_catalog::catalog::Catalogue;
use ebb_cloud::endpoint::Endpoint;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::selection::{Selection, TagFilter};
use ebb_report::zone::Zone;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};

pub(crate) use catalog::{CatalogArgs, CatalogCommand, Place, RefreshArgs, ShowArgs};
pub(crate) use findings::{BucketArgs, DecideArgs, FindingsArgs, FindingsCommand};
pub(crate) use sweep::SweepArgs;
pub(crate) use tune::{
    Form, ImportArgs, ImportKind, ServeArgs, Source, StepOrder, TuneArgs, TuneFormat,
};

const EXIT_STATUS: &str = "\
Exit status:
  0  done, whatever was found
  1  failed: something could not be read or written, or a check of doctor is missing
  2  the command line is wrong
  3  waste was found, with `scan` or `tune --exit-code` only";

/// Finds compute that runs, is billed, and does nothing. Reads and advises only:
/// it never starts, stops or changes anything.
#[derive(Debug, Parser)]
#[command(name = "ebb", version, after_help = EXIT_STATUS)]
pub(crate) struct Args {
    /// Time zone of times in text output [default: $TZ, else UTC]
    #[arg(long, value_name = "NAME", global = true, value_parser = zone)]
    pub(crate) time_zone: Option<Zone>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at an account once and say what is wasted
    ///
    /// Credentials, profile and endpoints are those of the AWS command line. Nothing
    /// has to be deployed. Without a probe's word idleness is judged on CloudWatch
    /// metrics, which is weaker evidence, and the report says so.
    Scan(ScanArgs),
    /// Show what a deployment found; dismiss or snooze a finding
    Findings(FindingsArgs),
    /// Fold what probes put into an object store, judge it, and tell people
    Sweep(SweepArgs),
    /// Say what each step should ask for, as a table or as text to paste
    Tune(TuneArgs),
    /// Advise on requests from Nextflow, Snakemake or Slurm records, without a probe
    Import(ImportArgs),
    /// Answer from a report over HTTP on this machine, as the deployed API does
    Serve(ServeArgs),
    /// Say what is missing for a scan and for the probe, with the line that mends it
    Doctor(DoctorArgs),
    /// Check a policy file, or show the thresholds
    Policy(PolicyArgs),
    /// Show machine types and their prices, or renew the prices of a deployment
    Catalog(CatalogArgs),
}

const SCAN_MORE: &str = "\
Examples:
  ebb scan --demo                                an account that is kept in the program
  ebb scan --region eu-central-1                 your account, one region
  ebb scan --profile research --output waste.html
  ebb scan --format csv --no-bill > waste.csv
  ebb scan --owner ana --min-saving 50           findings of one owner, from $50 a month
  ebb scan --kind idle_node --tag team=genomics
  ebb scan --demo --explain i-0b7d3f5a9c1e2d406  why that node is called idle, or not
  ebb scan --gcp my-project --price-per-hour 0.35
  ebb scan --gcp my-project --billing bill.csv   prices by Google's billing export, see below
  ebb scan --metrics fleet.csv --price-per-hour 0.35
  ebb scan --exit-code --output waste.json       a check in CI: status 3 when there is waste

Metrics of your own (--metrics): a CSV file with a row for each machine and sample. Columns:
  timestamp         RFC 3339 (2026-09-01T00:05:00Z) or seconds since 1970; required; either
                    end of the sample; rows of 30 minutes and more count for both
  resource_id       the machine; required
  cpu_pct           CPU of the whole machine, 0 to 100: the highest, else the average
  memory_pct        memory in use, 0 to 100, without caches
  net_in_bytes, net_out_bytes, disk_read_bytes, disk_write_bytes
                    bytes since the row before
  instance_type, region
                    an EC2 type and its region, for prices and smaller types
  simulated         true if a generator made the row
A field may be empty: its value is then unknown. A line that cannot be read is named and left
out. No machine is called idle without CPU and network. Two weeks of rows show working hours,
nightly jobs and weekends; with less, confidence is lower and a saving counts only the time
that the rows cover.

The bill of Google Cloud (--billing): rows of the billing export to BigQuery, as JSON of a row a
line or as CSV, of a fortnight. The detailed export names instances; without it days are told,
and no prices. What has no price by the bill has the one that you state, else none.
  bq query --nouse_legacy_sql --format=csv --max_rows=1000000 '
    SELECT service.description AS service_description,
      TIMESTAMP_TRUNC(usage_start_time, DAY) AS usage_start_time,
      resource.global_name AS resource_global_name, currency, currency_conversion_rate,
      SUM(cost) AS cost,
      SUM((SELECT SUM(amount) FROM UNNEST(credits))) AS credits_amount
    FROM `DATASET.gcp_billing_export_resource_v1_ACCOUNT`
    WHERE usage_start_time > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 15 DAY)
    GROUP BY 1, 2, 3, 4, 5' > bill.csv

What it costs: CloudWatch charges $0.01 for 1,000 metrics. A running instance takes 7, and 7
more the first time for 14 days by the hour (metrics.history_days); with CPU credits 2 more,
with a CloudWatch agent 1 for memory and 2 a GPU, which are listed at the price of a metric a
page;
Cost Explorer charges $0.01 a page. At most metrics.paid_calls_usd_micros_a_day of the
policy is spent, $1 by default. All else is free.

Exit status:
  0  done, whatever was found (see --exit-code)
  1  failed
  2  the command line is wrong
  3  waste was found, with --exit-code only";

#[derive(Debug, clap::Args)]
#[command(after_help = SCAN_MORE)]
pub(crate) struct ScanArgs {
    /// Scan the account that is kept in the program: offline, simulated, always the same
    #[arg(long, conflicts_with = "profile")]
    pub(crate) demo: bool,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Do not ask CloudWatch, which is charged for
    #[arg(long)]
    pub(crate) no_metrics: bool,
    /// Look at a project of Google Cloud instead, with the credentials of its tools
    #[arg(long, value_name = "PROJECT", conflicts_with_all = ["demo", "profile"])]
    pub(crate) gcp: Option<String>,
    /// What it is billed: a file of its billing export, as JSON lines or CSV
    #[arg(long, value_name = "FILE", requires = "gcp", conflicts_with_all = ["demo", "metrics"])]
    pub(crate) billing: Option<PathBuf>,
    /// Where a simulator plays its APIs, without credentials
    #[arg(long, value_name = "URL", requires = "gcp", hide = true, value_parser = endpoint)]
    pub(crate) gcp_endpoint: Option<String>,
    /// Evaluate machines on metrics of your own instead: a CSV file, see below
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["demo", "gcp", "no_metrics", "region", "profile", "no_bill"]
    )]
    pub(crate) metrics: Option<PathBuf>,
    /// What an hour of each machine costs in dollars, where the policy states no price
    #[arg(long, value_name = "USD", value_parser = price, conflicts_with = "demo")]
    pub(crate) price_per_hour: Option<UsdPerHour>,
    /// Prices that `ebb catalog refresh --file FILE` keeps, instead of the built-in ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["demo", "gcp", "metrics"])]
    pub(crate) catalog: Option<PathBuf>,
    /// A policy file instead of the default thresholds
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Explain how one resource was evaluated: any id or name in the report
    #[arg(long, value_name = "NAME")]
    pub(crate) explain: Option<String>,
    /// Format [default: derived from the extension of --output; otherwise table]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write the report to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// End with status 3 when waste was found
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// Which findings are shown.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters, which may be given again")]
pub(crate) struct SelectArgs {
    /// Show findings of this owner; `-` for those without an owner
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Vec<String>,
    /// Show findings of this kind, such as idle_node
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Vec<FindingKind>,
    /// Show findings on resources with this tag
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = tag)]
    pub(crate) tag: Vec<TagFilter>,
    /// Show findings that save at least this much a month
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) min_saving: Option<Usd>,
}

impl SelectArgs {
    pub(crate) fn selection(&self) -> Selection {
        let owner = |name: &String| Some(name.clone()).filter(|name| name != "-");
        Selection {
            owners: self.owner.iter().map(owner).collect(),
            kinds: self.kind.clone(),
            tags: self.tag.clone(),
            min_saving: self.min_saving,
        }
    }
}

/// Which account, and what of it.
#[derive(Debug, clap::Args)]
pub(crate) struct AccountArgs {
    /// A region to look at; may be given again [default: all that are enabled]
    #[arg(long, value_name = "REGION", value_parser = region)]
    pub(crate) region: Vec<Region>,
    /// Accounts to look at too: their ids parted by commas, or `organization`
    #[arg(long, value_name = "ACCOUNTS")]
    pub(crate) accounts: Option<String>,
    /// The role that is assumed in each of them
    #[arg(long, value_name = "NAME", default_value = "ebb-member")]
    pub(crate) account_role: String,
    /// A profile of the AWS configuration file
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Do not ask Cost Explorer, which is charged for; list prices are used
    #[arg(long)]
    pub(crate) no_bill: bool,
}

fn price(text: &str) -> Result<UsdPerHour, String> {
    let price = Usd::parse(text).filter(|usd| *usd > Usd::ZERO);
    price
        .map(UsdPerHour)
        .ok_or_else(|| "a price is dollars an hour, such as 0.35".to_owned())
}

/// By its form alone: a region that is younger than this program has the same.
///
/// Source: AWS General Reference, "AWS service endpoints"; Compute Engine, "Regions and zones".
fn region(text: &str) -> Result<Region, String> {
    let is_known = Catalogue::built_in()
        .regions()
        .any(|region| region.as_str() == text);
    if !is_known && !has_form_of_a_region(text) {
        let near = nearest_region(text);
        let near = near.map(|region| format!("; did you mean {region}?"));
        return Err(format!(
            "it is not the name of a region, such as eu-central-1{}",
            near.unwrap_or_default()
        ));
    }
    Region::new(text).map_err(|error| error.to_string())
}

fn has_form_of_a_region(text: &str) -> bool {
    const DIRECTIONS: [&str; 9] = [
        "north",
        "south",
        "east",
        "west",
        "central",
        "northeast",
        "northwest",
        "southeast",
        "southwest",
    ];
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_word = |text: &str| text.len() >= 2 && text.bytes().all(|b| b.is_ascii_lowercase());
    match parts[..] {
        // AWS: eu-central-1; of other partitions us-gov-west-1, us-iso-east-1, us-isob-east-1.
        [area, direction, number] => {
            is_word(area) && area.len() == 2 && DIRECTIONS.contains(&direction) && is_number(number)
        }
        [area, partition, direction, number] => {
            let is_partition = partition == "gov" || partition.starts_with("iso");
            is_word(area) && is_partition && DIRECTIONS.contains(&direction) && is_number(number)
        }
        // Google Cloud: europe-west1.
        [area, direction] => {
            let end = direction.trim_end_matches(|c: char| c.is_ascii_digit());
            is_word(area) && DIRECTIONS.contains(&end) && end.len() < direction.len()
        }
        _ => false,
    }
}

/// The region of the catalogue whose name differs least; `None` where none is close.
fn nearest_region(text: &str) -> Option<&'static Region> {
    const CLOSE: usize = 3;
    let regions = Catalogue::built_in().regions();
    let by_distance = regions.map(|region| (strsim::levenshtein(text, region.as_str()), region));
    let nearest = by_distance.min_by_key(|(distance, _)| *distance)?;
    (nearest.0 <= CLOSE).then_some(nearest.1)
}

/// An address that keeps what is sent there; see [`Endpoint`].
fn endpoint(text: &str) -> Result<String, String> {
    let endpoint = Endpoint::parse(text).map_err(|error| error.to_string())?;
    Ok(endpoint.as_str().to_owned())
}

fn zone(text: &str) -> Result<Zone, String> {
    Zone::parse(text).ok_or_else(|| "it is not a time zone, such as Europe/Berlin".to_owned())
}

/// The name that JSON has, or with hyphens.
fn kind(text: &str) -> Result<FindingKind, String> {
    let name = text.replace('-', "_").to_ascii_lowercase();
    let found = FindingKind::ALL.iter().find(|kind| kind.slug() == name);
    found.copied().ok_or_else(|| {
        let all: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.slug()).collect();
        format!("it is none of {}", all.join(", "))
    })
}

fn tag(text: &str) -> Result<TagFilter, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    match key.is_empty() {
        true => Err("a tag is KEY or KEY=VALUE".to_owned()),
        false => Ok(TagFilter {
            key: key.to_owned(),
            value,
        }),
    }
}

fn dollars(text: &str) -> Result<Usd, String> {
    let usd = Usd::parse(text.trim_start_matches('$')).filter(|usd| *usd >= Usd::ZERO);
    usd.ok_or_else(|| "it is not an amount in dollars, such as 25".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal
    Table,
    /// Every value, ebb.report/2
    Json,
    /// One self-contained page
    Html,
    /// One row a finding
    Csv,
    /// For a ticket or a wiki
    Markdown,
    /// Cost rows of the bill and of findings with the columns of FOCUS 1.2
    Focus,
    /// Results of a check, for CI: SARIF 2.1.0
    Sarif,
}

const DOCTOR_MORE: &str = "\
Examples:
  ebb doctor
  ebb doctor account --region eu-central-1 --profile research
  ebb doctor machine --format json

It tries the read calls that a scan makes, and reads a few files of this machine. Asking
Cost Explorer costs $0.01 a page, asking CloudWatch less than $0.0001 a region.

Exit status:
  0  nothing is missing
  1  something is missing, or the program failed
  2  the command line is wrong";

#[derive(Debug, clap::Args)]
#[command(after_help = DOCTOR_MORE)]
pub(crate) struct DoctorArgs {
    /// What to look at [default: both]
    #[arg(value_enum)]
    pub(crate) about: Option<About>,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
    /// How the checks are written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: DoctorFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum About {
    /// The AWS account, for a scan
    Account,
    /// This machine, for the probe
    Machine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// For a terminal
    Table,
    /// For a program
    Json,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Read a policy file as a sweep does, and show what then holds
    Check {
        /// The policy file
        file: PathBuf,
    },
    /// Show what differs between two policy files, or one and the defaults
    Diff {
        /// The policy file, or the older of two
        old: PathBuf,
        /// The newer one
        new: Option<PathBuf>,
    },
    /// Show the default thresholds, as a file to start from
    Show,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_refused_by_its_form() {
        let check = |text: &str, expect: Result<(), &str>| match (region(text), expect) {
            (Ok(found), Ok(())) => assert_eq!(found.as_str(), text),
            (Err(error), Err(said)) => assert!(error.contains(said), "{text}: {error}"),
            (got, _) => panic!("{text}: {got:?}"),
        };
        for name in [
            "eu-central-1",
            "us-gov-west-1",
            "us-isob-east-1",
            "ap-southeast-7",
            "mx-central-1",
            "us-east-12",
            "europe-west1",
            "us-central1",
            "northamerica-northeast2",
        ] {
            check(name, Ok(()));
        }
        let form = Err("such as eu-central-1");
        for name in [
            "xx",
            "",
            "eu-central-1a",
            "EU-CENTRAL-1",
            "eu central 1",
            "-1",
            "eu--1",
        ] {
            check(name, form);
        }
        check("eu-cental-1", Err("did you mean eu-central-1?"));
        check("us-esat-1", Err("did you mean us-east-1?"));
    }

    #[test]
    fn filters_are_read_from_words() {
        let read = |words: &[&str]| {
            let words = ["ebb", "scan"].iter().chain(words);
            match Args::try_parse_from(words)?.command {
                Command::Scan(scan) => Ok(scan.select.selection()),
                other => panic!("{other:?}"),
            }
        };
        let words = ["--owner", "ana", "--owner", "-", "--kind", "idle-node"];
        let words = [
            &words[..],
            &["--tag", "team=a=b", "--tag", "env", "--min-saving", "$25"],
        ];
        let all = read(&words.concat()).expect("filters");
        assert_eq!(
            all.to_string(),
            "owner ana or nobody, kind idle_node, tag team=a=b or env, saving of at least $25.00 \
             a month"
        );
        let check = |words: &[&str], said: &str| {
            let error: clap::Error = read(words).expect_err(said);
            assert!(error.to_string().contains(said), "{error}");
        };
        check(&["--kind", "lazy"], "idle_node");
        check(&["--tag", "=x"], "KEY or KEY=VALUE");
        check(&["--min-saving=-5"], "--min-saving");
        check(&["--min-saving", "much"], "such as 25");
    }

    #[test]
    fn a_bill_of_google_cloud_is_of_a_project_of_it() {
        let check = |more: &[&str], expect: bool| {
            let words = ["ebb", "scan", "--billing", "b.csv"];
            let words = words.iter().chain(more);
            assert_eq!(Args::try_parse_from(words).is_ok(), expect, "{more:?}");
        };
        check(&["--gcp", "lab"], true);
        check(&[], false);
        check(&["--demo"], false);
        check(&["--metrics", "m.csv"], false);
    }
}
