//! Arguments of the program and their help.

mod catalog;
mod costs;
mod deployment;
mod explain;
mod findings;
mod format;
mod init;
pub(crate) mod lake;
pub(crate) mod names;
mod pages;
mod probes;
mod runs;
mod sweep;
mod top;
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

pub(crate) use catalog::{CatalogArgs, CatalogCommand, CatalogLocation, RefreshArgs, ShowArgs};
pub(crate) use costs::{CostFormat, CostsArgs};
pub(crate) use deployment::{DeploymentArgs, ReportArgs, api};
pub(crate) use explain::{ExplainFormat, ExplanationArgs};
pub(crate) use findings::{DecideArgs, FindingsArgs, FindingsCommand};
pub(crate) use format::TableFormat;
pub(crate) use init::{InitArgs, InitDeployment, SetupEngine, SetupExecutor};
pub(crate) use lake::LakeArgs;
pub(crate) use names::NamesArgs;
pub(crate) use pages::PagesArgs;
pub(crate) use probes::ProbesArgs;
pub(crate) use runs::RunsArgs;
pub(crate) use sweep::SweepArgs;
pub(crate) use top::{TopArgs, TopFormat};
pub(crate) use tune::{
    Form, ImportArgs, ImportKind, ServeArgs, SnakemakeArgs, StepOrder, TuneArgs, TuneFormat,
};

const EXIT_STATUS: &str = "\
Exit status:
  0  success, with or without findings
  1  failure: a read or write failed, or a check of `doctor` failed
  2  invalid command line
  3  findings exist (`scan` and `tune` with --exit-code only)";

/// Find idle and oversized cloud compute, and what to do about it
///
/// Ebb reads and advises. It never starts, stops or changes a resource.
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
    /// Scan an account once and report waste
    ///
    /// A scan of an account needs no deployment. It uses the credentials, profile and endpoints
    /// of the AWS CLI. It reads the inventory, the bill and CloudWatch metrics, but no probe
    /// data. Idle nodes are detected from metrics, which is weaker evidence, and tasks and steps
    /// are unknown. With --bucket or --lake, the command shows the newest report of a deployment,
    /// which contains the data of its probes.
    Scan(Box<ScanArgs>),
    /// List the findings of a deployment; dismiss or snooze a finding
    Findings(FindingsArgs),
    /// List pipeline runs, or the tasks of one run
    Runs(RunsArgs),
    /// Divide the bill by pipeline, run, step, user or cost centre
    Costs(CostsArgs),
    /// List probes with their mode, losses and last heartbeat
    Probes(ProbesArgs),
    /// Explain how one resource was evaluated, rule by rule
    Explain(ExplanationArgs),
    /// Show rows of the lake, and run SQL over them
    Lake(LakeArgs),
    /// Process probe data from an object store, evaluate it, send notifications
    Sweep(SweepArgs),
    /// Recommend a request for each step, as a table or as engine configuration
    Tune(TuneArgs),
    /// Recommend requests from Nextflow, Snakemake or Slurm records
    Import(ImportArgs),
    /// Store names of tasks from engine records for sweeps; explain a name
    Names(NamesArgs),
    /// Store the default deployment; write the configuration of an engine
    Init(InitArgs),
    /// Serve the pages and the API of a deployment, on this machine
    Serve(ServeArgs),
    /// Print a link that opens the pages of a deployment in a browser
    Pages(PagesArgs),
    /// Show the running tasks of this machine, live, from its probe
    Top(TopArgs),
    /// Check what a scan and the probe need, and show how to fix it
    Doctor(DoctorArgs),
    /// Check a policy file, or show the thresholds
    Policy(PolicyArgs),
    /// Show machine types and prices; refresh the prices of a deployment
    Catalog(CatalogArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write a page for each command into a folder
    Man(ManArgs),
}

const SCAN_MORE: &str = "\
Examples:
  ebb scan --demo                                the built-in demo account
  ebb scan --region eu-central-1                 your account, one region
  ebb scan --profile research --output waste.html
  ebb scan --format csv --no-bill > waste.csv
  ebb scan --owner ana --min-saving 50           findings of one owner, from $50 a month
  ebb scan --kind idle_node --tag team=genomics
  ebb scan --demo --explain i-0b7d3f5a9c1e2d406  how this node was evaluated
  ebb scan --bucket NAME                         the newest report of a deployment
  ebb scan --lake file:///srv/ebb --explain host7   with the data of its probes
  ebb scan --gcp my-project --price-per-hour 0.35
  ebb scan --gcp my-project --billing bill.csv   prices from the billing export, see below
  ebb scan --metrics fleet.csv --price-per-hour 0.35
  ebb scan --exit-code --output waste.json       in CI: exit status 3 if findings exist

Own metrics (--metrics): a CSV file with one row for each machine and sample. Columns:
  timestamp         RFC 3339 (2026-09-01T00:05:00Z) or seconds since 1970; required; start or
                    end of the sample; a sample of 30 minutes or more counts for both
  resource_id       the machine; required
  cpu_pct           CPU use of the whole machine, 0 to 100: the maximum of the sample; if it is
                    unknown, the average
  memory_pct        memory in use without caches, 0 to 100
  net_in_bytes, net_out_bytes, disk_read_bytes, disk_write_bytes
                    bytes since the previous row
  instance_type, region
                    EC2 type and region, for prices and smaller types
  simulated         true if a generator made the row
An empty field is unknown, and so are NaN, N/A, NA, null, None and -. Lines that cannot be read
are listed and skipped. A machine needs CPU and network values to be reported as idle. Two weeks of
rows show working hours, nightly jobs and weekends. With fewer rows, confidence is lower, and a
saving covers only the time of the rows.

Bill of Google Cloud (--billing): two weeks of the billing export to BigQuery, as JSON lines or
CSV. Only the detailed export names instances; other exports show costs by day and no prices. An
instance without a billed price has the price of --price-per-hour or of the policy.
  bq query --nouse_legacy_sql --format=csv --max_rows=1000000 '
    SELECT service.description AS service_description,
      TIMESTAMP_TRUNC(usage_start_time, DAY) AS usage_start_time,
      resource.global_name AS resource_global_name, usage.unit AS usage_unit,
      currency, currency_conversion_rate, SUM(cost) AS cost,
      SUM((SELECT SUM(amount) FROM UNNEST(credits)
        WHERE IFNULL(type, \"\") != \"PROMOTION\")) AS credits_amount,
      SUM((SELECT SUM(amount) FROM UNNEST(credits)
        WHERE type = \"PROMOTION\")) AS promotions_amount
    FROM `DATASET.gcp_billing_export_resource_v1_ACCOUNT`
    WHERE usage_start_time > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 15 DAY)
    GROUP BY 1, 2, 3, 4, 5, 6' > bill.csv

Bill from exports: `export` in [costs] of the policy names a bucket or a folder with CUR 2.0 or
FOCUS 1.x, which replace Cost Explorer. On premises, it is a folder with FOCUS files.

Cost of a scan: CloudWatch charges $0.01 for 1,000 metrics. Each running instance needs 7
metrics. The first scan needs 7 more for 14 days of history (metrics.history_days), 2 more for
CPU credits, and with a CloudWatch agent 1 for memory and 2 a GPU. Listing these agent metrics
costs one metric a page. Cost Explorer charges $0.01 a page. A scan spends at most
metrics.paid_calls_usd_micros_a_day of the policy, $1 by default. All other calls are free.

Exit status:
  0  success, with or without findings
  1  failure
  2  invalid command line
  3  findings exist (with --exit-code only)";

/// Options of a new scan, which a report of a deployment does not have.
const NOT_OF_A_DEPLOYMENT: [&str; 10] = [
    "demo",
    "gcp",
    "metrics",
    "no_metrics",
    "no_bill",
    "accounts",
    "account_role",
    "price_per_hour",
    "catalog",
    "policy",
];

#[derive(Debug, clap::Args)]
#[command(after_help = SCAN_MORE)]
pub(crate) struct ScanArgs {
    /// Scan the built-in demo account: offline, simulated, always the same
    #[arg(long, conflicts_with = "profile")]
    pub(crate) demo: bool,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Do not read CloudWatch metrics, which AWS charges for
    #[arg(long)]
    pub(crate) no_metrics: bool,
    /// Scan a Google Cloud project, with application default credentials
    #[arg(long, value_name = "PROJECT", conflicts_with_all = ["demo", "profile"])]
    pub(crate) gcp: Option<String>,
    /// Billing export of the project, as JSON lines or CSV
    #[arg(long, value_name = "FILE", requires = "gcp", conflicts_with_all = ["demo", "metrics"])]
    pub(crate) billing: Option<PathBuf>,
    /// Endpoint of a simulator, used without credentials
    #[arg(long, value_name = "URL", requires = "gcp", hide = true, value_parser = endpoint)]
    pub(crate) gcp_endpoint: Option<String>,
    /// Machines from a CSV file of metrics, see below; - for standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["demo", "gcp", "no_metrics", "region", "profile", "no_bill"]
    )]
    pub(crate) metrics: Option<PathBuf>,
    /// CPU and memory in the file are percent, although no value is above 1.5
    #[arg(long, requires = "metrics")]
    pub(crate) percent: bool,
    /// Show the newest report of this bucket (Terraform output `bucket`)
    #[arg(long, value_name = "NAME", conflicts_with_all = NOT_OF_A_DEPLOYMENT)]
    pub(crate) bucket: Option<String>,
    /// Show the newest report of `ebb sweep` in file:///PATH, s3://… or gs://…
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "bucket",
        conflicts_with_all = NOT_OF_A_DEPLOYMENT
    )]
    pub(crate) lake: Option<String>,
    /// Show the newest report of the API of a deployment or of `ebb serve`
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["bucket", "lake"],
        conflicts_with_all = NOT_OF_A_DEPLOYMENT,
        value_parser = api
    )]
    pub(crate) api: Option<Endpoint>,
    /// Show the newest report of a deployment of ~/.config/ebb/config.toml
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["bucket", "lake", "api"],
        conflicts_with_all = NOT_OF_A_DEPLOYMENT
    )]
    pub(crate) deployment: Option<String>,
    /// Price of each machine per hour in USD, if the policy has none
    #[arg(long, value_name = "USD", value_parser = price, conflicts_with = "demo")]
    pub(crate) price_per_hour: Option<UsdPerHour>,
    /// Price file of `ebb catalog refresh --file` [default: built-in prices]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["demo", "gcp", "metrics"])]
    pub(crate) catalog: Option<PathBuf>,
    /// Policy file [default: built-in thresholds]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Explain how one resource was evaluated, by any id or name
    #[arg(long, value_name = "NAME")]
    pub(crate) explain: Option<String>,
    /// Format [default: from the extension of --output, otherwise table]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write the report to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Exit with status 3 if findings exist
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// The heading of the options in [`SelectArgs`]; options after them stay under `Options`.
const FILTERS: &str = "Filters";

/// Which findings are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// Show findings of this owner, `-` for those without an owner; repeatable
    #[arg(long, value_name = "NAME", help_heading = FILTERS)]
    pub(crate) owner: Vec<String>,
    /// Show findings of this kind, such as idle_node; repeatable
    #[arg(long, value_name = "KIND", value_parser = kind, help_heading = FILTERS)]
    pub(crate) kind: Vec<FindingKind>,
    /// Show findings on resources with this tag; repeatable
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = tag, help_heading = FILTERS)]
    pub(crate) tag: Vec<TagFilter>,
    /// Show findings that save, or may save, at least this much a month
    #[arg(long, value_name = "USD", value_parser = dollars, help_heading = FILTERS)]
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
    /// Region to scan; repeatable [default: all enabled regions]
    #[arg(long, value_name = "REGION", value_parser = region)]
    pub(crate) region: Vec<Region>,
    /// Other accounts to scan too: comma-separated ids, or `organization`
    #[arg(long, value_name = "ACCOUNTS")]
    pub(crate) accounts: Option<String>,
    /// Role to assume in each of these accounts
    #[arg(long, value_name = "NAME", default_value = "ebb-member")]
    pub(crate) account_role: String,
    /// Profile of the AWS configuration file
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Do not read Cost Explorer, which AWS charges for; use list prices
    #[arg(long)]
    pub(crate) no_bill: bool,
}

fn price(text: &str) -> Result<UsdPerHour, String> {
    let price = Usd::parse(text).filter(|usd| *usd > Usd::ZERO);
    price
        .map(UsdPerHour)
        .ok_or_else(|| "expected dollars per hour, such as 0.35".to_owned())
}

/// By its form alone: a region that is younger than this program has the same.
///
/// Source: AWS General Reference, "AWS service endpoints"; Compute Engine, "Regions and zones".
pub(crate) fn region(text: &str) -> Result<Region, String> {
    let is_known = Catalogue::built_in()
        .regions()
        .any(|region| region.as_str() == text);
    if !is_known && !has_form_of_a_region(text) {
        let near = nearest_region(text);
        let near = near.map(|region| format!("; did you mean {region}?"));
        return Err(format!(
            "expected the name of a region, such as eu-central-1{}",
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
    Zone::parse(text).ok_or_else(|| "expected a time zone, such as Europe/Berlin".to_owned())
}

/// The name that JSON has, or with hyphens.
fn kind(text: &str) -> Result<FindingKind, String> {
    let name = text.replace('-', "_").to_ascii_lowercase();
    name.parse().map_err(|_| {
        let all: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.slug()).collect();
        format!("expected one of {}", all.join(", "))
    })
}

fn tag(text: &str) -> Result<TagFilter, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    match key.is_empty() {
        true => Err("expected KEY or KEY=VALUE".to_owned()),
        false => Ok(TagFilter {
            key: key.to_owned(),
            value,
        }),
    }
}

fn dollars(text: &str) -> Result<Usd, String> {
    let usd = Usd::parse(text.trim_start_matches('$')).filter(|usd| *usd >= Usd::ZERO);
    usd.ok_or_else(|| "expected an amount in dollars, such as 25".to_owned())
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
  ebb doctor deployment --bucket NAME            from the bucket to the messages
  ebb doctor deployment --bucket NAME --send-test   and a test message to each channel
  ebb doctor --deployment production             deployment, account and this machine
  ebb doctor account --region eu-central-1 --profile research
  ebb doctor machine --format json

The command makes the read calls of a scan, and reads a few files of this machine. Cost
Explorer charges $0.01 a page, CloudWatch less than $0.0001 a region. `limited` means that a
part works with a restriction, which the line names. `ebb-probe check` also loads the probe and
tries the queue. For a deployment, the command reads the newest report and the state of messages.
Fix the first part that is `missing`, then run the command again.

--send-test sends one message to Slack, to each address of EBB_EMAIL_TO, to the SNS topic and to
the webhook for events. With --bucket, the sweeper function sends them, with its own rights; the
caller needs lambda:InvokeFunction. With --lake, this program sends them, with the variables of
`ebb sweep`. Nothing is sent to webhooks of the policy, because PagerDuty and Jira take each
request for an alert or an issue; their secret and template are checked.

Exit status:
  0  nothing is missing
  1  a check shows `missing`, or the program failed
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = DOCTOR_MORE)]
pub(crate) struct DoctorArgs {
    /// Part to check [default: account and machine]
    #[arg(value_enum)]
    pub(crate) about: Option<About>,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
    /// Bucket of a deployment to check (Terraform output `bucket`)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lake", "api", "deployment"])]
    pub(crate) bucket: Option<String>,
    /// Folder or bucket of `ebb sweep` to check: file:///PATH, s3://… or gs://…
    #[arg(long, value_name = "URL", conflicts_with_all = ["api", "deployment"])]
    pub(crate) lake: Option<String>,
    /// API of a deployment to check (Terraform output `api_url`)
    #[arg(long, value_name = "URL", conflicts_with = "deployment", value_parser = api)]
    pub(crate) api: Option<Endpoint>,
    /// Entry of ~/.config/ebb/config.toml to check
    #[arg(long, value_name = "NAME")]
    pub(crate) deployment: Option<String>,
    /// Send a test message to each channel of the deployment
    #[arg(long)]
    pub(crate) send_test: bool,
    /// Lambda function that sends the test [default: from the bucket's name]
    #[arg(long, value_name = "NAME", requires = "send_test", value_parser = function)]
    pub(crate) function: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: DoctorFormat,
}

impl DoctorArgs {
    /// The deployment, with the region and the profile of the account.
    pub(crate) fn place(&self) -> DeploymentArgs {
        DeploymentArgs {
            bucket: self.bucket.clone(),
            lake: self.lake.clone(),
            api: self.api.clone(),
            deployment: self.deployment.clone(),
            region: self.account.region.first().cloned(),
            profile: self.account.profile.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum About {
    /// A deployment: its bucket or folder, sweeps, probes and messages
    Deployment,
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

/// The name of a function of Lambda, without its account and version.
fn function(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match (1..=64).contains(&text.len()) && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("expected up to 64 letters, digits, - and _".to_owned()),
    }
}

const COMPLETIONS_MORE: &str = "\
Examples:
  ebb completions bash > /usr/share/bash-completion/completions/ebb
  ebb completions zsh > ~/.zfunc/_ebb            with ~/.zfunc in fpath
  ebb completions fish > ~/.config/fish/completions/ebb.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_MORE)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the script
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

const MAN_MORE: &str = "\
Examples:
  ebb man | man -l -
  ebb man /usr/local/share/man/man1";

#[derive(Debug, clap::Args)]
#[command(after_help = MAN_MORE)]
pub(crate) struct ManArgs {
    /// Folder for ebb.1 and a page for each command, such as ebb-scan.1
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Validate a policy file and show the resulting thresholds
    Check {
        /// Policy file
        file: PathBuf,
    },
    /// Compare two policy files, or one file with the defaults
    Diff {
        /// Policy file, or the older of two files
        old: PathBuf,
        /// Newer policy file
        new: Option<PathBuf>,
    },
    /// Print the default thresholds as a policy file
    Show,
    /// Print the JSON Schema of a policy file
    Schema,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_refused_by_its_form() {
        let check = |text: &str, expect: Result<(), &str>| match (region(text), expect) {
            (Ok(found), Ok(())) => assert_eq!(found.as_str(), text),
            (Err(error), Err(message)) => assert!(error.contains(message), "{text}: {error}"),
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
        let check = |words: &[&str], message: &str| {
            let error: clap::Error = read(words).expect_err(message);
            assert!(error.to_string().contains(message), "{error}");
        };
        check(&["--kind", "lazy"], "idle_node");
        check(&["--tag", "=x"], "KEY or KEY=VALUE");
        check(&["--min-saving=-5"], "--min-saving");
        check(&["--min-saving", "much"], "such as 25");
    }

    #[test]
    fn names_of_earlier_releases_are_still_options() {
        let check = |text: &str, expect: FindingKind| assert_eq!(kind(text), Ok(expect));
        check("low-duty-node", FindingKind::UnderutilizedNode);
        check("spot_would_carry", FindingKind::SpotCandidate);
        check("gpu-memory-held", FindingKind::GpuMemoryHeld);
        let error = kind("no-such").expect_err("there is no such kind");
        assert!(error.contains("gpu_memory_held"), "{error}");
        assert!(!error.contains("held_gpu_memory"), "{error}");
        let words = [
            "ebb",
            "findings",
            "reopen",
            "low_duty_node/r/i-1",
            "--bucket",
            "b",
        ];
        let read = Args::try_parse_from(words).expect("it is read");
        assert!(format!("{:?}", read.command).contains("underutilized_node/r/i-1"));
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
