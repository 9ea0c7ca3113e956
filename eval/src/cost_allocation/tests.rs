//! A run that this test makes up: two tasks share a machine, and a third one has its own.

use std::fs;

use super::*;

const TRACE: &str = "\
hash\tprocess\tstart\tcomplete\trealtime\tcpus\tmemory\t%cpu\tpeak_rss
aa/000001\tALIGN\t2026-01-05 10:00:00.000\t2026-01-05 10:56:00.000\t56m\t2\t8 GB\t100%\t1 GB
bb/000002\tSORT\t2026-01-05 10:00:00.000\t2026-01-05 10:56:00.000\t56m\t1\t4 GB\t200.0%\t1 GB
cc/000003\tSORT\t2026-01-05 10:30:00.000\t2026-01-05 10:56:00.000\t26m\t2\t4 GB\t-\t-
dd/000004\tSORT\t-\t-\t-\t2\t4 GB\t-\t-
";

const MACHINES: &str = "\
hash,machine_type,price_model,zone,estimated_cost_usd
aa/000001,m5.xlarge,spot,eu-west-1a,0.0933333
bb/000002,m5.xlarge,spot,eu-west-1a,0.0466667
cc/000003,m5.xlarge,spot,eu-west-1a,0.0433333
dd/000004,m5.xlarge,spot,eu-west-1a,
";

const SPLIT_COST: &str = "\
task_hash,split_cost_usd,unused_cost_usd
aa000001ffff,0.06,0.01
aa000001ffff,0.03,0.01
bb000002ffff,0.08,0.01
cc000003ffff,0.00,0.00
dd000004ffff,0.01,0.01
";

#[test]
fn tasks_share_reconstructed_machines_and_are_compared_with_aws() {
    let folder = std::env::temp_dir().join(format!("ebb-eval-costs-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    for (ending, text) in [
        ("trace.txt", TRACE),
        ("machines.csv", MACHINES),
        ("split-cost.csv", SPLIT_COST),
    ] {
        fs::write(folder.join(format!("made-up.{ending}")), text).expect("a file");
    }
    let compared = compare_all(&folder);
    fs::remove_dir_all(&folder).expect("it is there");
    let [one] = &compared.expect("three files")[..] else {
        panic!("one run")
    };
    assert_eq!((one.machines, one.left_out, one.without_price), (2, 1, 0));
    assert_eq!((one.all.tasks, one.all.processes), (3, 2));
    // $0.20 an hour. The machine of two tasks lives for an hour; SORT keeps two cores busy, so both
    // tasks fill the cores and 12 of 16 GiB for 56 minutes.
    let used = one.charged.used_usd.ours;
    let expect = 0.2 * (36.0 + 12.0) / 52.0 * 56.0 / 60.0;
    assert!((used - expect).abs() < 1e-5, "{used} {expect}");
    let all = used + one.charged.unused_usd.ours;
    // No task runs in the two minutes of the hour before 10:00.
    assert!((all - 0.2 * 58.0 / 60.0).abs() < 1e-5, "{all}");
    assert_eq!(one.charged.tasks, 2);
}

#[test]
fn a_rank_correlation_is_that_of_spearman() {
    let check = |pairs: &[(f64, f64)], expect: Option<f64>| {
        let sums = pairs.iter().map(|(ours, aws)| Sums {
            ours: *ours,
            aws: *aws,
        });
        let rho = spearman(sums);
        let near = rho.zip(expect).map(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near.unwrap_or(rho == expect), "{rho:?} {expect:?}");
    };
    check(&[(1.0, 10.0), (2.0, 20.0), (9.0, 21.0)], Some(1.0));
    check(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], Some(-1.0));
    // Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4.
    check(
        &[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)],
        Some(0.948_683_298_050_513_8),
    );
    check(&[(1.0, 1.0), (1.0, 2.0)], None);
    check(&[], None);
}
