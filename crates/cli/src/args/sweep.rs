//! Arguments of `sweep`.

use std::path::PathBuf;

const MORE: &str = "\
Examples:
  ebb sweep --lake file:///srv/ebb          a folder that the probes write to
  ebb sweep --lake s3://bucket/ebb          S3, or a compatible store (AWS_ENDPOINT_URL)
  ebb sweep --lake gs://bucket/ebb          Google Cloud Storage
  ebb sweep --lake file:///srv/ebb --watch 5
                                            every 5 seconds, for live pages of `ebb serve`

Probes write there with `ebb-probe run --sink`. State, lake, policy (config/policy.toml) and
reports (reports/latest/) are stored there too. The sweep knows only machines with a probe. The
policy states their price per hour:
  [[prices]]
  node = \"rack3-*\"
  usd_micros_per_hour = 350000

For Google Cloud, --billing or EBB_BILLING names a file of the billing export (see `ebb scan
--help`). `export` in [costs] of the policy names a folder or bucket with FOCUS 1.x or CUR 2.0.

The sweep sends notifications about new, grown and resolved findings to these channels:
  EBB_SLACK_WEBHOOK_URL          incoming webhook of Slack
  EBB_EVENTS_WEBHOOK             signed CloudEvents: {\"url\": \"https://…\", \"key\": \"whsec_…\"}
  EBB_WEBHOOKS                   webhooks of the policy: {\"NAME\": {\"url\": \"https://…\"}}
  EBB_PAGES_URL                  address of the pages, for links in notifications
  EBB_EMAIL_FROM, EBB_EMAIL_TO   email through Amazon SES, with the credentials of AWS

EBB_INTERVAL_MINUTES is the time between two sweeps; with it, the report says when sweeps are late.
infra/ebb-sweep.timer runs the command every five minutes. The command prints a summary as JSON;
with --watch, it prints one line for each sweep. A failed sweep is one line on standard error, and
the next sweep continues. Pages show new data after one interval of the probe (interval_seconds)
and the next sweep.

Exit status:
  0  success, with or without findings
  1  failure; nothing is lost, and the next sweep continues
  2  invalid command line";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct SweepArgs {
    /// URL of the folder or bucket
    #[arg(long, value_name = "URL")]
    pub(crate) lake: String,
    /// Billing export of Google Cloud, as JSON lines or CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) billing: Option<PathBuf>,
    /// Policy file [default: config/policy.toml of --lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Sweep again at this interval, until the program is stopped
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(2..=3600))]
    pub(crate) watch: Option<u16>,
}
