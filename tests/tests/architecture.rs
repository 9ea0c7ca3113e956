//! The allowed dependencies between crates, as in `ARCHITECTURE.md`. A new dependency requires a
//! line in both files.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Each crate with the workspace crates that it may depend on; see "Who may depend on whom".
/// [`ANY`] may depend on any.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ebb-telemetry", &[]),
    ("ebb-wire", &["ebb-telemetry"]),
    ("ebb-catalog", &["ebb-telemetry"]),
    ("ebb-node-state", &["ebb-telemetry"]),
    ("ebb-model", &["ebb-catalog", "ebb-telemetry"]),
    ("ebb-sizing", &["ebb-model", "ebb-catalog", "ebb-telemetry"]),
    (
        "ebb-analysis",
        &[
            "ebb-sizing",
            "ebb-node-state",
            "ebb-model",
            "ebb-catalog",
            "ebb-telemetry",
        ],
    ),
    ("ebb-cloud", &["ebb-model", "ebb-catalog", "ebb-telemetry"]),
    (
        "ebb-lake",
        &["ebb-model", "ebb-wire", "ebb-cloud", "ebb-telemetry"],
    ),
    ("ebb-gpu", &["ebb-telemetry"]),
    ("ebb-probe", &["ebb-telemetry", "ebb-wire", "ebb-cloud"]),
    (
        "ebb-workflows",
        &[
            "ebb-analysis",
            "ebb-sizing",
            "ebb-model",
            "ebb-catalog",
            "ebb-telemetry",
        ],
    ),
    (
        "ebb-ingest",
        &[
            "ebb-lake",
            "ebb-cloud",
            "ebb-node-state",
            "ebb-model",
            "ebb-wire",
            "ebb-telemetry",
        ],
    ),
    ("ebb-report", &["ebb-model", "ebb-telemetry"]),
    (
        "ebb-notify",
        &["ebb-report", "ebb-cloud", "ebb-model", "ebb-telemetry"],
    ),
    (
        "ebb-api",
        &[
            "ebb-workflows",
            "ebb-report",
            "ebb-cloud",
            "ebb-sizing",
            "ebb-model",
            "ebb-catalog",
            "ebb-telemetry",
        ],
    ),
    ("ebb-protocol-model", &[]),
    (HARNESS, &[]),
    (
        "ebb-sweep",
        &[
            "ebb-notify",
            "ebb-report",
            "ebb-ingest",
            "ebb-lake",
            "ebb-cloud",
            "ebb-analysis",
            "ebb-node-state",
            "ebb-model",
            "ebb-catalog",
            "ebb-telemetry",
        ],
    ),
    (
        "ebb-cli",
        &[
            "ebb-sweep",
            "ebb-api",
            "ebb-notify",
            "ebb-report",
            "ebb-workflows",
            "ebb-ingest",
            "ebb-lake",
            "ebb-cloud",
            "ebb-analysis",
            "ebb-node-state",
            "ebb-model",
            "ebb-catalog",
            "ebb-telemetry",
        ],
    ),
    (
        "ebb-sweeper-lambda",
        &[
            "ebb-sweep",
            "ebb-notify",
            "ebb-ingest",
            "ebb-lake",
            "ebb-cloud",
            "ebb-model",
            "ebb-telemetry",
        ],
    ),
    ("ebb-tune-lambda", &["ebb-api", "ebb-cloud"]),
];
const ANY: [&str; 4] = ["ebb-tests", "ebb-bench", "eval", "ebb-fuzz"];

/// Dependencies that only tests may have.
const FOR_TESTS: &[(&str, &str)] = &[
    ("ebb-probe", "ebb-node-state"),
    ("ebb-report", "ebb-workflows"),
    ("ebb-notify", "ebb-catalog"),
    ("ebb-sweep", "ebb-wire"),
    ("ebb-workflows", "ebb-node-state"),
];

/// The test harness, which the tests of every crate may use.
const HARNESS: &str = "ebb-test-support";

/// The one crate that may depend on a cloud SDK.
const CLOUD: &str = "ebb-cloud";

/// The features of [`CLOUD`] that the probe may enable. It does not use inventory, metrics, bill,
/// secrets or mail. None of these features needs the model or the catalog.
const PROBES_FEATURES: [&str; 5] = ["queue", "objects", "identity", "buckets", "http-post"];

/// One dependency in a manifest, of any kind.
#[derive(Debug, Clone)]
struct Edge {
    from: String,
    to: String,
    features: Vec<String>,
    is_for_tests: bool,
}

/// Errors in the dependencies of the packages, as text.
fn wrong(packages: &BTreeSet<String>, edges: &[Edge]) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let unknown = packages
        .iter()
        .filter(|name| !ANY.contains(&name.as_str()) && !allowed.contains_key(name.as_str()))
        .map(|name| format!("{name} stands in no line of ARCHITECTURE.md"));
    let edges = edges
        .iter()
        .filter(|edge| !ANY.contains(&edge.from.as_str()));
    unknown
        .chain(edges.filter_map(|edge| objection(packages, &allowed, edge)))
        .collect()
}

fn objection(
    packages: &BTreeSet<String>,
    allowed: &BTreeMap<&str, &[&str]>,
    edge: &Edge,
) -> Option<String> {
    let Edge {
        from, to, features, ..
    } = edge;
    if to.starts_with("aws-sdk-") && from != CLOUD {
        return Some(format!(
            "{from} names {to}; only {CLOUD} may name a cloud SDK"
        ));
    }
    let known = allowed.get(from.as_str()).copied().unwrap_or_default();
    let is_of_tests = to == HARNESS || FOR_TESTS.contains(&(from.as_str(), to.as_str()));
    let is_known = known.contains(&to.as_str()) || (edge.is_for_tests && is_of_tests);
    if packages.contains(to) && !is_known {
        return Some(format!(
            "{from} depends on {to}, which ARCHITECTURE.md does not allow"
        ));
    }
    let extra_feature = features
        .iter()
        .find(|name| !PROBES_FEATURES.contains(&name.as_str()));
    match extra_feature {
        Some(name) if from == "ebb-probe" && to == CLOUD && !edge.is_for_tests => {
            Some(format!("{from} asks {to} for {name}"))
        }
        _ => None,
    }
}

fn metadata() -> (BTreeSet<String>, Vec<Edge>) {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut names = BTreeSet::new();
    let mut edges = Vec::new();
    for package in list(&metadata["packages"]) {
        names.insert(text(&package["name"]));
        // The features of the other crate that a feature of the package enables, as
        // `other/feature`.
        let own = package["features"].as_object().into_iter().flatten();
        let own: Vec<String> = own
            .flat_map(|(_, asks)| list(asks))
            .map(|f| text(&f))
            .collect();
        for dependency in list(&package["dependencies"]) {
            let to = text(&dependency["name"]);
            let through = own
                .iter()
                .filter_map(|asks| asks.strip_prefix(&format!("{to}/")));
            let features = list(&dependency["features"]);
            edges.push(Edge {
                from: text(&package["name"]),
                features: features
                    .iter()
                    .map(text)
                    .chain(through.map(str::to_owned))
                    .collect(),
                to,
                is_for_tests: dependency["kind"] == "dev",
            });
        }
    }
    (names, edges)
}

#[test]
fn dependencies_point_down_and_only_one_crate_names_a_cloud_sdk() {
    let (packages, edges) = metadata();
    assert!(packages.contains("ebb-model") && packages.len() >= ALLOWED.len());
    assert!(
        edges
            .iter()
            .any(|e| e.from == CLOUD && e.to.starts_with("aws-sdk-"))
    );
    let wrong = wrong(&packages, &edges);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The workspace crates that a program compiles with all its features, without tests.
fn compiled_crates(program: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--all-features", "--edges=normal"])
        .args(["--prefix=none", "--format={p}", "--package", program])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let own = names.filter(|name| name.starts_with("ebb-"));
    own.map(str::to_owned).collect()
}

/// The manifests alone do not show this, because features of the cloud crate decide it.
#[test]
fn the_probe_compiles_no_rule_and_no_price_table() {
    let of_probe = ["ebb-cloud", "ebb-probe", "ebb-telemetry", "ebb-wire"];
    let compiled = compiled_crates("ebb-probe");
    assert!(compiled.iter().eq(of_probe), "{compiled:?}");
    // A program that reads an account compiles both, so the check is able to fail.
    let compiled = compiled_crates("ebb-sweeper-lambda");
    assert!(compiled.contains("ebb-model") && compiled.contains("ebb-catalog"));
}

#[test]
fn a_wrong_edge_is_told() {
    let check = |from: &str, to: &str, features: &[&str], expect: Option<&str>| {
        let (mut packages, mut edges) = metadata();
        packages.insert(from.to_owned());
        edges.push(Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            is_for_tests: false,
        });
        let violations = wrong(&packages, &edges);
        let expect: Vec<String> = expect.map(str::to_owned).into_iter().collect();
        assert_eq!(violations, expect);
    };
    check("ebb-sweep", "ebb-cloud", &["inventory"], None);
    check("ebb-probe", "ebb-cloud", &["queue"], None);
    check("ebb-tests", "ebb-probe", &[], None);
    check(
        "ebb-model",
        "ebb-wire",
        &[],
        Some("ebb-model depends on ebb-wire, which ARCHITECTURE.md does not allow"),
    );
    check(
        "ebb-probe",
        "ebb-lake",
        &[],
        Some("ebb-probe depends on ebb-lake, which ARCHITECTURE.md does not allow"),
    );
    check(
        "ebb-cli",
        "aws-sdk-s3",
        &[],
        Some("ebb-cli names aws-sdk-s3; only ebb-cloud may name a cloud SDK"),
    );
    check(
        "ebb-probe",
        "ebb-cloud",
        &["inventory"],
        Some("ebb-probe asks ebb-cloud for inventory"),
    );
    check(
        "ebb-new",
        "serde",
        &[],
        Some("ebb-new stands in no line of ARCHITECTURE.md"),
    );
}
