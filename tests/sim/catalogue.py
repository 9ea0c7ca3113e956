"""What the simulated fleet is made of: instance types, prices, names.

Prices are on-demand Linux list prices of us-east-1 in USD an hour as published
by AWS; they only make bills plausible and are no source for the product.
"""

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True)
class InstanceType:
    """A type that moto knows under the same name."""

    name: str
    vcpus: int
    memory_bytes: int
    usd_per_hour: float


_TYPES = [
    ("t3.medium", 2, 4, 0.0416),
    ("t3.large", 2, 8, 0.0832),
    ("m5.large", 2, 8, 0.096),
    ("m5.xlarge", 4, 16, 0.192),
    ("m5.2xlarge", 8, 32, 0.384),
    ("m5.4xlarge", 16, 64, 0.768),
    ("m6i.large", 2, 8, 0.096),
    ("m6i.xlarge", 4, 16, 0.192),
    ("m6i.2xlarge", 8, 32, 0.384),
    ("m6i.8xlarge", 32, 128, 1.536),
    ("c5.xlarge", 4, 8, 0.17),
    ("c5.2xlarge", 8, 16, 0.34),
    ("c6i.xlarge", 4, 8, 0.17),
    ("c6i.2xlarge", 8, 16, 0.34),
    ("c6i.4xlarge", 16, 32, 0.68),
    ("r5.large", 2, 16, 0.126),
    ("r5.xlarge", 4, 32, 0.252),
    ("r6i.xlarge", 4, 32, 0.252),
    ("r5.2xlarge", 8, 64, 0.504),
    ("g4dn.xlarge", 4, 16, 0.526),
    ("g5.xlarge", 4, 16, 1.006),
]

TYPES = {name: InstanceType(name, vcpus, gib * GIB, usd) for name, vcpus, gib, usd in _TYPES}
# Sold, and run by nobody: of AWS's current generation, which Ebb offers.
_BESIDE = [
    ("m6a.large", 2, 8, 0.0864),
    ("m6a.xlarge", 4, 16, 0.1728),
    ("m6a.2xlarge", 8, 32, 0.3456),
    ("m6a.4xlarge", 16, 64, 0.6912),
    ("c6a.xlarge", 4, 8, 0.153),
    ("c6a.2xlarge", 8, 16, 0.306),
    ("r6a.xlarge", 4, 32, 0.2268),
    ("r6a.2xlarge", 8, 64, 0.4536),
]
SOLD = TYPES | {name: InstanceType(name, vcpus, gib * GIB, usd) for name, vcpus, gib, usd in _BESIDE}
GPU_TYPES = ("g4dn.xlarge", "g5.xlarge")
GENERAL_TYPES = tuple(name for name in TYPES if name not in GPU_TYPES and name != "m6i.8xlarge")
# Wide enough for several jobs of 8 to 16 vCPU and 32 to 64 GiB.
WORKER_TYPE = "m6i.8xlarge"

REGIONS = {"us-east-1": 1.0, "eu-central-1": 1.19, "us-west-2": 1.0}
SPOT_DISCOUNT = 0.36

# This tag shows to readers of Ebb that a resource is simulated.
SIMULATED = {"ebb:simulated": "true"}

OWNERS = ("ada", "bashir", "chiara", "dmitri", "esther", "farid")
PROJECTS = ("atlas", "genome-42", "imaging", "nightly", "proteomics", "web")
SERVICES = ("api", "archive", "build", "cache", "etl", "gateway", "index", "notebook", "render", "sampler", "worker")
TOOLS = ("bwa-mem", "call-snps", "fastqc", "quantify", "sort-bam", "star-align", "trim-reads")


def spot_advisor() -> dict[str, object]:
    """Interruption bands in the form of the Spot Instance Advisor's file, without the last one."""
    bands = [{"index": n, "label": label} for n, label in enumerate(("<5%", "5-10%", "10-15%", "15-20%", ">20%"))]
    linux = {name: {"s": round(100 * (1 - SPOT_DISCOUNT)), "r": n % 4} for n, name in enumerate(SOLD)}
    return {"ranges": bands, "spot_advisor": {region: {"Linux": linux} for region in REGIONS}}


def usd_per_hour(type_name: str, region: str, lifecycle: str) -> float:
    """Price of a type where it runs, `lifecycle` being `spot` or `on-demand`."""
    price = SOLD[type_name].usd_per_hour * REGIONS[region]
    return price * SPOT_DISCOUNT if lifecycle == "spot" else price
