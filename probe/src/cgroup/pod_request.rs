//! The CPU request of a Kubernetes pod, which the kubelet writes into the cgroup of the pod as a share of
//! CPU time. The limit is another value: a pod may use more than its request.
//!
//! Sources: `MilliCPUToShares` in `pkg/kubelet/cm/helpers_linux.go` of Kubernetes (a core is 1024
//! shares), and the conversions to `cpu.weight` of opencontainers/cgroups: the linear one, and since 2025 a
//! quadratic one of logarithms. The group of all pods has the cores of the node, and so shows which of
//! them the kubelet uses.

use std::path::Path;

use crate::kernel_file;

/// Shares of one core.
const SHARES_A_CORE: f64 = 1024.0;

/// The least shares, which a pod without a request has.
const LEAST_SHARES: f64 = 2.0;

/// Reserved cores leave at least this part of a node to pods.
const LEAST_FOR_PODS: f64 = 0.4;

/// The conversion of shares to a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    Linear,
    Logarithmic,
}

impl Conversion {
    /// Shares that become a weight of `weight` at most; the weight is rounded.
    fn shares(self, weight: f64) -> f64 {
        match self {
            // weight = 1 + (shares - 2) * 9999 / 262142, rounded down: the greatest of its shares.
            Self::Linear => LEAST_SHARES + weight * 262_142.0 / 9_999.0,
            // weight = 10 ^ ((l * l + 125 l) / 612 - 7 / 34) with l = log2(shares), rounded up.
            Self::Logarithmic => {
                let exponent = (weight.max(1.0).log10() + 7.0 / 34.0) * 612.0;
                let root = (15_625.0 + 4.0 * exponent).sqrt();
                ((root - 125.0) / 2.0).exp2()
            }
        }
    }

    /// The conversion with which the group of all pods has a plausible part of the cores of the node.
    fn of_node(weight_of_all: f64, cores: f64) -> Option<Self> {
        [Self::Linear, Self::Logarithmic]
            .into_iter()
            .find(|conversion| {
                let share = conversion.shares(weight_of_all) / SHARES_A_CORE / cores;
                (LEAST_FOR_PODS..1.03).contains(&share)
            })
    }
}

/// Whether the path of a cgroup is that of a pod or below.
pub(super) fn is_of_pod(path: &str) -> bool {
    folder_of_all_pods(path).is_some()
}

/// The path of the group of all pods, such as `/kubepods.slice`, above a cgroup.
fn folder_of_all_pods(path: &str) -> Option<&str> {
    let mut end = 0;
    for part in path.split_inclusive('/') {
        end += part.len();
        let name = part.trim_end_matches('/').trim_end_matches(".slice");
        if name == "kubepods" || name.ends_with("-kubepods") {
            return path.get(..end);
        }
    }
    None
}

/// The request of a pod in thousandths of a core from cgroup v1; `None` without one.
pub(super) fn of_shares(cpu_mount: &Path, path: &str) -> Option<u64> {
    let shares: f64 = number(&super::below(cpu_mount, path), "cpu.shares")?;
    // Rounded down by the kubelet.
    request(shares, shares + 1.0)
}

/// The same from cgroup v2, on a node with so many cores.
pub(super) fn of_weight(mount: &Path, path: &str, cores: f64) -> Option<u64> {
    let all = super::below(mount, folder_of_all_pods(path)?);
    let conversion = Conversion::of_node(number(&all, "cpu.weight")?, cores)?;
    let weight = number(&super::below(mount, path), "cpu.weight")?;
    let low = conversion.shares(weight - 1.0);
    match weight <= 1.0 {
        true => None,
        // Shares are rounded down by the kubelet.
        false => request(low, conversion.shares(weight) + 1.0),
    }
}

/// The request with the fewest digits within a range of shares: people write `100m`, `500m` or `2`.
fn request(low: f64, high: f64) -> Option<u64> {
    if low <= LEAST_SHARES {
        return None;
    }
    let milli = |shares: f64| shares * 1000.0 / SHARES_A_CORE;
    let (low, high) = (milli(low), milli(high));
    [1000.0, 500.0, 100.0, 50.0, 10.0, 5.0, 1.0]
        .into_iter()
        .map(|step: f64| (high / step).floor() * step)
        .find(|request| *request >= low)
        .or(Some(high.floor()))
        .map(|request| request as u64)
        .filter(|request| *request > 0)
}

fn number(folder: &Path, file: &str) -> Option<f64> {
    let text = kernel_file::read(folder.join(file)).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const POD: &str = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice";

    #[test]
    fn the_group_of_all_pods_is_found_for_both_drivers_and_in_a_container() {
        let check = |path: &str, expect| assert_eq!(folder_of_all_pods(path), expect, "{path}");
        check("/kubepods/burstable/pod1", Some("/kubepods/"));
        check(POD, Some("/kubepods.slice/"));
        let kind = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice";
        check(kind, Some("/kubelet.slice/kubelet-kubepods.slice/"));
        check("/system.slice/docker-1.scope", None);
    }

    #[test]
    fn shares_are_the_request() {
        let check = |shares: &str, expect| {
            let mount = tempfile::tempdir().expect("a folder");
            let folder = mount.path().join("kubepods/pod1");
            fs::create_dir_all(&folder).expect("folders");
            fs::write(folder.join("cpu.shares"), shares).expect("a file");
            assert_eq!(
                of_shares(mount.path(), "/kubepods/pod1"),
                expect,
                "{shares}"
            );
        };
        check("2\n", None);
        check("102\n", Some(100));
        check("204\n", Some(200));
        check("256\n", Some(250));
        check("2048\n", Some(2_000));
        check("x", None);
    }

    /// The weight that a kubelet writes.
    fn weight(conversion: Conversion, milli: u64) -> u64 {
        let shares = (milli * 1024 / 1000).max(2) as f64;
        match conversion {
            Conversion::Linear => 1 + ((shares - 2.0) * 9_999.0 / 262_142.0) as u64,
            Conversion::Logarithmic => {
                let l = shares.log2();
                10_f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0).ceil() as u64
            }
        }
    }

    #[test]
    fn weights_are_the_request_with_the_conversion_of_the_node() {
        let check = |conversion, cores: u64, milli: u64, expect| {
            let mount = tempfile::tempdir().expect("a folder");
            let folder = mount.path().join(&POD[1..]);
            fs::create_dir_all(&folder).expect("folders");
            let all = weight(conversion, cores * 1000 - 100).to_string();
            fs::write(mount.path().join("kubepods.slice/cpu.weight"), all).expect("a file");
            let of_pod = weight(conversion, milli).to_string();
            fs::write(folder.join("cpu.weight"), of_pod).expect("a file");
            let got = of_weight(mount.path(), POD, cores as f64);
            assert_eq!(got, expect, "{conversion:?} {cores} cores {milli}m");
        };
        for conversion in [Conversion::Linear, Conversion::Logarithmic] {
            for cores in [2, 4, 16, 64] {
                check(conversion, cores, 0, None);
                check(conversion, cores, 500, Some(500));
                check(conversion, cores, 1_000, Some(1_000));
                check(conversion, cores, 2_000, Some(2_000));
            }
        }
        check(Conversion::Linear, 4, 250, Some(250));
        check(Conversion::Logarithmic, 4, 100, Some(100));
    }

    #[test]
    fn a_weight_that_fits_no_conversion_is_no_request() {
        assert_eq!(Conversion::of_node(39.0, 1.0), Some(Conversion::Linear));
        assert_eq!(
            Conversion::of_node(100.0, 1.0),
            Some(Conversion::Logarithmic)
        );
        assert_eq!(Conversion::of_node(100.0, 64.0), None);
        assert_eq!(Conversion::of_node(10_000.0, 2.0), None);
    }
}
