//! The name of a pod, from the directory in which the kubelet stores its container logs, and the
//! part of it that the user chose. Pure.

/// The name of a directory under `/var/log/pods`: `<namespace>_<pod>_<uid>`. A namespace or pod
/// name cannot contain `_`.
///
/// Source: Kubernetes, `BuildPodLogsDirectory` in `pkg/kubelet/kuberuntime/helpers.go`; the format
/// of the names is `IsDNS1123Subdomain` in `apimachinery/pkg/util/validation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFolder<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod name.
    pub pod: &'a str,
    /// The pod uid, as in the cgroup path.
    pub uid: &'a str,
}

impl<'a> LogFolder<'a> {
    /// `None` for any other directory name.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (namespace, rest) = name.split_once('_')?;
        let (pod, uid) = rest.split_once('_')?;
        let is_name = |name: &str| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
            name.bytes().all(plain) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        (is_name(namespace) && is_name(pod)).then_some(Self {
            namespace,
            pod,
            uid,
        })
    }

    /// The pod name without the parts that a controller added, so that all pods of one template are
    /// tasks of one step.
    pub fn chosen(&self) -> String {
        of_workflow(self.pod).unwrap_or_else(|| chosen(self.pod).to_owned())
    }
}

/// The name without the parts that controllers add. A part stays if a person could have chosen it.
fn chosen(pod: &str) -> &str {
    let Some((owner, suffix)) = pod.rsplit_once('-') else {
        return pod;
    };
    if !is_random(suffix) {
        return pod;
    }
    match owner.rsplit_once('-') {
        Some((name, part)) if is_template_hash(part) || is_schedule(part) => name,
        // An Indexed Job.
        Some((name, part)) if is_no_word(suffix) && is_index(part) => name,
        _ if is_no_word(suffix) => owner,
        _ => pod,
    }
}

/// Argo pods: the names of the workflow and of the template, and a 32-bit hash in decimal digits. The name of
/// the workflow usually ends in five random letters or the time of its schedule.
///
/// Source: Argo Workflows, `GeneratePodName` in `workflow/util/pod_name.go`, and `getChildWorkflowName` in
/// `workflow/cron/operator.go`.
fn of_workflow(pod: &str) -> Option<String> {
    // A shorter number can be a date.
    const SURELY_HASH: usize = 9;
    let (both, hash) = pod.rsplit_once('-')?;
    let is_hash = hash.len() >= 7 && !hash.starts_with('0') && hash.parse::<u32>().is_ok();
    let mut parts: Vec<&str> = both.split('-').collect();
    let is_added = |part: &&str| is_random(part) && is_no_word(part) || is_time(part);
    let added = parts.iter().skip(1).position(is_added);
    if let Some(before) = added {
        parts.remove(before + 1);
    }
    (is_hash && (added.is_some() || hash.len() >= SURELY_HASH)).then(|| parts.join("-"))
}

/// Five of the letters and digits that Kubernetes uses for generated names.
///
/// Source: `SimpleNameGenerator` in `apiserver/pkg/storage/names/generate.go`, and
/// `alphanums` in `apimachinery/pkg/util/rand/rand.go`.
fn is_random(part: &str) -> bool {
    part.len() == 5
        && part
            .bytes()
            .all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
}

/// Whether a letter follows a digit, or all are consonants. `pgsql` and `chr22` consist of the same letters,
/// but people choose them.
fn is_no_word(part: &str) -> bool {
    let first_digit = part.bytes().position(|b| b.is_ascii_digit());
    first_digit.map_or(part != "pgsql", |at| {
        part.as_bytes()[at..].iter().any(u8::is_ascii_lowercase)
    })
}

/// The index of a pod in its job.
///
/// Source: `podGenerateNameWithIndex` in `pkg/controller/job/indexed_job_utils.go` of Kubernetes.
fn is_index(part: &str) -> bool {
    (1..=6).contains(&part.len())
        && part.bytes().all(|b| b.is_ascii_digit())
        && (part == "0" || !part.starts_with('0'))
}

/// A time in seconds, from 2001 to 2065.
fn is_time(part: &str) -> bool {
    part.len() == 10
        && part
            .parse()
            .is_ok_and(|seconds: u64| (1_000_000_000..3_000_000_000).contains(&seconds))
}

/// The hash of a pod template, which comes before the random part in pods of a Deployment: a 32-bit
/// number, with its decimal digits encoded as ten of the letters.
///
/// Source: `ComputeHash` in `pkg/controller/controller_utils.go`, and `SafeEncodeString`
/// in `apimachinery/pkg/util/rand/rand.go`.
fn is_template_hash(part: &str) -> bool {
    (8..=10).contains(&part.len()) && part.bytes().all(|b| b"456789bcdf".contains(&b))
}

/// The time of a `CronJob` run in minutes, from 2008 to 2065.
///
/// Source: `getJobName` in `pkg/controller/cronjob/cronjob_controllerv2.go`.
fn is_schedule(part: &str) -> bool {
    part.len() == 8
        && part
            .parse()
            .is_ok_and(|minutes: u32| (20_000_000..50_000_000).contains(&minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "7f1c2d3e-0000-4abc-8def-0123456789ab";

    #[test]
    fn a_folder_of_logs_tells_namespace_and_pod() {
        let check = |folder: &str, expect: Option<(&str, &str, &str)>| {
            let got = LogFolder::parse(folder).map(|f| (f.namespace, f.pod, f.uid));
            assert_eq!(got, expect, "{folder}");
        };
        let folder = format!("kube-system_coredns-5d78c9869d-x7k2p_{UID}");
        check(
            &folder,
            Some(("kube-system", "coredns-5d78c9869d-x7k2p", UID)),
        );
        // A static pod.
        let hash = "0123456789abcdef0123456789abcdef";
        let folder = format!("kube-system_etcd-node1.example_{hash}");
        check(&folder, Some(("kube-system", "etcd-node1.example", hash)));
        check("kube-system_coredns", None);
        check("_coredns_1", None);
        check("A_coredns_1", None);
        check("a_b\u{1b}[2J_1", None);
        check("", None);
    }

    #[test]
    fn what_a_controller_adds_is_taken_off_and_nothing_else() {
        let check = |pod: &str, expect: &str| {
            let folder = LogFolder {
                namespace: "lab",
                pod,
                uid: UID,
            };
            assert_eq!(folder.chosen(), expect, "{pod}");
        };
        // A Deployment, with any last part.
        check("web-server-5d78c9869d-x7k2p", "web-server");
        check("web-server-5d78c9869d-pgsql", "web-server");
        // A CronJob.
        check("nightly-29387520-x7k2p", "nightly");
        // A Job, a DaemonSet, and anything with `generateName`.
        check("align-x7k2p", "align");
        check("align-bcdfg", "align");
        // An Indexed Job.
        check("align-0-x7k2p", "align");
        check("align-12-bcdfg", "align");
        check("align-007-x7k2p", "align-007");
        // The same letters, but chosen by people.
        check("align-pgsql", "align-pgsql");
        check("align-chr22", "align-chr22");
        check("align-22222", "align-22222");
        // Ordinals depend on the number of replicas; people choose other names.
        check("db-0", "db-0");
        check("align", "align");
        check("x7k2p", "x7k2p");
        check("align-abcde", "align-abcde");
        // Batch on EKS and Snakemake: the whole name is generated.
        let batch = format!("aws-batch.{UID}");
        check(&batch, &batch);
        let snakemake = format!("snakejob-{UID}");
        check(&snakemake, &snakemake);
        // Argo.
        check("rnaseq-x7k2p-align-3482913021", "rnaseq-align");
        check("rnaseq-x7k2p-align-reads-348291302", "rnaseq-align-reads");
        check("rnaseq-2024-align-3482913021", "rnaseq-2024-align");
        check("nightly-1730424000-align-3482913021", "nightly-align");
        check("backup-20241130", "backup-20241130");
        check(
            "rnaseq-x7k2p-align-9999999999",
            "rnaseq-x7k2p-align-9999999999",
        );
        check("rnaseq-x7k2p-3482913021", "rnaseq");
    }
}
