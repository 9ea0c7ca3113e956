//! Arguments of `catalog`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use ebb_catalog::machine_type::Architecture;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;

const MORE: &str = "\
Examples:
  ebb catalog show                                  machine types of us-east-1, cheapest first
  ebb catalog show m5.xlarge                        one type, in every region
  ebb catalog show --region eu-central-1 --min-vcpus 16 --min-memory-gib 64 --arch arm64
  ebb catalog show --gpu T4 --format json
  ebb catalog refresh --bucket ebb-123456789012-eu-central-1 --region eu-central-1
  ebb catalog show m5.xlarge --bucket ebb-123456789012-eu-central-1
  ebb catalog refresh --file prices.json && ebb scan --catalog prices.json

Prices are on-demand prices of Linux with shared tenancy, in USD per hour. The output shows the
date of built-in prices. A sweep reads the AWS Price List once a week, also for Fargate, storage
and addresses, and reads machine types that are not built in from EC2. `refresh` reads all of
these at once, and Spot prices. AWS does not charge for these calls. `refresh` stores the result in
the lake. The next sweep and the API use stored prices that are newer than the built-in ones. The
command needs pricing:GetProducts, ec2:DescribeInstanceTypes, ec2:DescribeSpotPriceHistory, and
s3:GetObject and s3:PutObject on lake/catalogue/* of the bucket.";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    pub(crate) command: CatalogCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Show one machine type, or all types that match the filters
    Show(ShowArgs),
    /// Read current machine types and prices from AWS and store them
    Refresh(RefreshArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct ShowArgs {
    /// Machine type, such as m5.xlarge
    #[arg(value_name = "TYPE")]
    pub(crate) name: Option<String>,
    /// Region of the prices [default: all for one type, else us-east-1]
    #[arg(long, value_name = "REGION", value_parser = super::region)]
    pub(crate) region: Option<Region>,
    /// Show types of this family, such as m5
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) family: Option<String>,
    /// Show types of this processor architecture
    #[arg(long, value_enum, conflicts_with = "name")]
    pub(crate) arch: Option<Arch>,
    /// Show types with at least this many vCPUs
    #[arg(long, value_name = "N", conflicts_with = "name")]
    pub(crate) min_vcpus: Option<u32>,
    /// Show types with at least this much memory
    #[arg(long, value_name = "GIB", conflicts_with = "name")]
    pub(crate) min_memory_gib: Option<u64>,
    /// Show types with a GPU whose name contains this, such as T4
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) gpu: Option<String>,
    /// Show types up to this on-demand price per hour
    #[arg(long, value_name = "USD", value_parser = super::price, conflicts_with = "name")]
    pub(crate) max_price: Option<UsdPerHour>,
    /// Show at most this many types
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) place: CatalogLocation,
    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: super::DoctorFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct RefreshArgs {
    /// Region to read; repeatable [default: all enabled regions]
    #[arg(long, value_name = "REGION", value_parser = super::region)]
    pub(crate) region: Vec<Region>,
    #[command(flatten)]
    pub(crate) place: CatalogLocation,
}

/// Where refreshed prices are stored.
#[derive(Debug, clap::Args)]
pub(crate) struct CatalogLocation {
    /// Bucket of the deployment (Terraform output `bucket`)
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: Option<String>,
    /// Region of the bucket
    #[arg(long, value_name = "REGION", value_parser = super::region, requires = "bucket")]
    pub(crate) bucket_region: Option<Region>,
    /// File to use instead of a bucket
    #[arg(long, value_name = "FILE", conflicts_with = "bucket")]
    pub(crate) file: Option<PathBuf>,
    /// Profile of the AWS configuration file
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    /// Intel and AMD
    #[value(name = "x86_64")]
    X86,
    /// Graviton
    Arm64,
}

impl From<Arch> for Architecture {
    fn from(arch: Arch) -> Self {
        match arch {
            Arch::X86 => Self::X86_64,
            Arch::Arm64 => Self::Arm64,
        }
    }
}
