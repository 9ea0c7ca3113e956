//! What `catalog` can be told.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use ebb_catalog::machine_type::Architecture;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;

const MORE: &str = "\
Examples:
  ebb catalog show                                  what us-east-1 sells, cheapest first
  ebb catalog show m5.xlarge                        one type, in every region
  ebb catalog show --region eu-central-1 --min-vcpus 16 --min-memory-gib 64 --arch arm64
  ebb catalog show --gpu T4 --format json
  ebb catalog refresh --bucket ebb-123456789012-eu-central-1 --region eu-central-1
  ebb catalog show m5.xlarge --bucket ebb-123456789012-eu-central-1
  ebb catalog refresh --file prices.json && ebb scan --catalog prices.json

Prices are of Linux on demand in shared tenancy, in dollars an hour. Those that are built
in are of the day that is shown. A sweep asks AWS's Price List once a week, for Fargate, storage
and addresses too, and EC2 about machine types that are there and not built in. `refresh` asks
for all of it at once, and for spot prices, which AWS charges nothing for, and keeps the answers
in the lake; the next sweep and the API go by them where they are younger. It needs
pricing:GetProducts, ec2:DescribeInstanceTypes, ec2:DescribeSpotPriceHistory, and s3:GetObject
and s3:PutObject on lake/catalogue/* of the bucket.";

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct CatalogArgs {
    #[command(subcommand)]
    pub(crate) command: CatalogCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Show one machine type, or those that fit
    Show(ShowArgs),
    /// Ask AWS what they have and what it sells them for now, and keep that
    Refresh(RefreshArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct ShowArgs {
    /// A machine type, such as m5.xlarge
    #[arg(value_name = "TYPE")]
    pub(crate) name: Option<String>,
    /// The region whose prices are shown [default: all for one type, else us-east-1]
    #[arg(long, value_name = "REGION", value_parser = super::region)]
    pub(crate) region: Option<Region>,
    /// Only of this family, such as m5
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) family: Option<String>,
    /// Only for programs of this kind
    #[arg(long, value_enum, conflicts_with = "name")]
    pub(crate) arch: Option<Arch>,
    /// Only with so many vCPUs or more
    #[arg(long, value_name = "N", conflicts_with = "name")]
    pub(crate) min_vcpus: Option<u32>,
    /// Only with so much memory or more
    #[arg(long, value_name = "GIB", conflicts_with = "name")]
    pub(crate) min_memory_gib: Option<u64>,
    /// Only with GPUs whose name holds this, such as T4
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) gpu: Option<String>,
    /// Only up to so many dollars an hour on demand
    #[arg(long, value_name = "USD", value_parser = super::price, conflicts_with = "name")]
    pub(crate) max_price: Option<UsdPerHour>,
    /// At most so many types
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) place: Place,
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: super::DoctorFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct RefreshArgs {
    /// A region to ask about; may be given again [default: all that are enabled]
    #[arg(long, value_name = "REGION", value_parser = super::region)]
    pub(crate) region: Vec<Region>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where refreshed prices are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The deployment's bucket, as Terraform's output names it
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: Option<String>,
    /// The bucket's region
    #[arg(long, value_name = "REGION", value_parser = super::region, requires = "bucket")]
    pub(crate) bucket_region: Option<Region>,
    /// A file instead of a bucket
    #[arg(long, value_name = "FILE", conflicts_with = "bucket")]
    pub(crate) file: Option<PathBuf>,
    /// A profile of the AWS configuration file
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
