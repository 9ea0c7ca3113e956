//! The name of a pod, by the folder that the kubelet keeps its containers' logs in, and
//! what of that name its owner chose. Pure.

/// What one folder under `/var/log/pods` is called: `<namespace>_<pod>_<uid>`. Neither a
/// namespace nor a pod's name can hold the `_`.
///
/// Source: Kubernetes, `BuildPodLogsDirectory` in
/// `pkg/kubelet/kuberuntime/helpers.go`; the names' form,
/// `IsDNS1123Subdomain` in `apimachinery/pkg/util/validation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFolder<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// Its name.
    pub pod: &'a str,
    /// Its uid, as its cgroup has it.
    pub uid: &'a str,
}

impl<'a> LogFolder<'a> {
    /// `None` of any other folder.
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

    /// The pod's name without what a controller put into it, so that all pods of one
    /// template are runs of one step.
    pub fn chosen(&self) -> String {
        of_workflow(self.pod).unwrap_or_else(|| chosen(self.pod).to_owned())
    }
}

/// The name without what controllers add, where that can hardly be anything else; a name
/// that people gave stays whole, and so do generated ones that could be theirs.
fn chosen(pod: &str) -> &str {
    let Some((owner, suffix)) = pod.rsplit_once('-') else {
        return pod;
    };
    if !is_random(suffix) {
        return pod;
    }
    match owner.rsplit_once('-') {
        Some((name, part)) if is_template_hash(part) || is_schedule(part) => name,
        _ if is_no_word(suffix) => owner,
        _ => pod,
    }
}

/// Argo's pods: the workflow's name, which mostly ends in five random letters, the
/// template's, and a 32-bit hash in decimal digits.
///
/// Source: Argo Workflows, `GeneratePodName` in `workflow/util/pod_name.go`.
fn of_workflow(pod: &str) -> Option<String> {
    let (both, hash) = pod.rsplit_once('-')?;
    let is_hash = hash.len() >= 7 && !hash.starts_with('0') && hash.parse::<u32>().is_ok();
    let mut parts = both.split('-');
    let at = parts.position(|part| is_random(part) && is_no_word(part))?;
    let (workflow, template) = (both.split('-').take(at), parts);
    let names: Vec<&str> = workflow.chain(template).collect();
    (is_hash && at > 0 && names.len() > at).then(|| names.join("-"))
}

/// Five of the letters and digits that Kubernetes makes names of.
///
/// Source: `SimpleNameGenerator` in `apiserver/pkg/storage/names/generate.go`, and
/// `alphanums` in `apimachinery/pkg/util/rand/rand.go`.
fn is_random(part: &str) -> bool {
    part.len() == 5
        && part
            .bytes()
            .all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b))
}

/// A letter follows a digit: `pgsql` and `chr22` are of the same letters, and words.
fn is_no_word(part: &str) -> bool {
    let first_digit = part.bytes().position(|b| b.is_ascii_digit());
    let after = first_digit.map(|at| part.as_bytes()[at..].iter());
    after.is_some_and(|mut after| after.any(u8::is_ascii_lowercase))
}

/// The hash of a pod template, which a Deployment's pods have before their own: a 32-bit
/// number whose decimal digits are spelt by ten of the letters.
///
/// Source: `ComputeHash` in `pkg/controller/controller_utils.go`, and `SafeEncodeString`
/// in `apimachinery/pkg/util/rand/rand.go`.
fn is_template_hash(part: &str) -> bool {
    (8..=10).contains(&part.len()) && part.bytes().all(|b| b"456789bcdf".contains(&b))
}

/// The time of a `CronJob`'s run in minutes, of 2008 to 2065.
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
        // A pod from a file of the node.
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
        // A Deployment, whatever its last part looks like.
        check("web-server-5d78c9869d-x7k2p", "web-server");
        check("web-server-5d78c9869d-pgsql", "web-server");
        // A CronJob.
        check("nightly-29387520-x7k2p", "nightly");
        // A Job, a DaemonSet, anything of `generateName`.
        check("align-x7k2p", "align");
        check("align-0-x7k2p", "align-0");
        // Of the same letters, and words.
        check("align-pgsql", "align-pgsql");
        check("align-chr22", "align-chr22");
        check("align-22222", "align-22222");
        // Ordinals are chosen by how many there are, and other names by people.
        check("db-0", "db-0");
        check("align", "align");
        check("x7k2p", "x7k2p");
        check("align-abcde", "align-abcde");
        // Batch on EKS and Snakemake: nothing but what is generated.
        let batch = format!("aws-batch.{UID}");
        check(&batch, &batch);
        let snakemake = format!("snakejob-{UID}");
        check(&snakemake, &snakemake);
        // Argo.
        check("rnaseq-x7k2p-align-3482913021", "rnaseq-align");
        check("rnaseq-x7k2p-align-reads-348291302", "rnaseq-align-reads");
        check(
            "rnaseq-2024-align-3482913021",
            "rnaseq-2024-align-3482913021",
        );
        check(
            "rnaseq-x7k2p-align-9999999999",
            "rnaseq-x7k2p-align-9999999999",
        );
        check("rnaseq-x7k2p-3482913021", "rnaseq-x7k2p-3482913021");
    }
}
