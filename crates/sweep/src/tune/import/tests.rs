//! Files as their systems write them.

use ebb_domain::profile::bound::Binding;
use ebb_domain::units::MilliCores;

use super::*;

fn read(kind: Kind, text: &str) -> Imported {
    let mut imported = Imported::default();
    imported.read(kind, "work/align.tsv", text).expect("a file");
    imported
}

fn only(imported: &Imported) -> StepAdvice {
    let advice = imported.advice(None);
    assert_eq!(advice.len(), 1, "{advice:?}");
    advice.into_iter().next().expect("one")
}

const NEXTFLOW: &str = "\
task_id\thash\tname\tstatus\texit\trealtime\t%cpu\tpeak_rss\tcpus\tmemory\trchar
1\taa/1\tALIGN (a)\tCOMPLETED\t0\t1h 2m\t98.5%\t1.5 GB\t4\t16 GB\t2 GB
2\taa/2\tALIGN (b)\tCOMPLETED\t0\t3m\t20.0%\t2 GB\t4\t16 GB\t1 GB
3\taa/3\tALIGN (c)\tFAILED\t137\t10s\t-\t-\t4\t1 GB\t-
4\taa/4\tALIGN (d)\tFAILED\t1\t10s\t-\t-\t4\t16 GB\t-
5\taa/5\tALIGN (e)\tCOMPLETED\t0\t3m\t20.0%\tmuch\t4\t16 GB\t1 GB
";

#[test]
fn a_trace_of_nextflow_is_read_by_its_names_and_a_bad_line_is_told() {
    let imported = read(Kind::Nextflow, NEXTFLOW);
    assert_eq!((imported.runs, imported.skipped), (4, 1));
    assert_eq!(
        imported.bad[0].to_string(),
        "6: peak_rss: 'much' cannot be read"
    );
    let step = only(&imported);
    assert_eq!(step.step, "ALIGN");
    assert_eq!((step.runs, step.samples), (4, 2));
    assert_eq!((step.failed, step.oom_kills), (2, 1));
    assert_eq!(step.asks.cores, Some(MilliCores::cores(4)));
    // The killed run had 1 GiB; of those with more, the least held 1.5 GiB.
    assert_eq!(step.should_ask.memory, Some(Bytes::mib(2_560)));
    assert_eq!(step.bound.by, Some(Binding::Memory));
}

#[test]
fn a_benchmark_of_snakemake_is_named_by_its_rule_or_its_file() {
    let plain = "s\th:m:s\tmax_rss\tmax_vms\tio_in\tio_out\tmean_load\tcpu_time\n\
                 61.5\t0:01:01\t512.00\t900\t10\t2\t180.00\t110\n";
    let step = only(&read(Kind::Snakemake, plain));
    assert_eq!(step.step, "align");
    assert_eq!(step.should_ask.memory, Some(Bytes::mib(768)));
    assert_eq!(step.bound.by, Some(Binding::Compute));
    let extended = "s\th:m:s\tmax_rss\trule_name\tthreads\tresources\tinput_size_mb\n\
                    61.5\t0:01:01\tNA\tsort\t4\t{\"mem_mb\": 2000}\t{\"a\": 1.5}\n";
    let step = only(&read(Kind::Snakemake, extended));
    assert_eq!(step.step, "sort");
    assert_eq!(step.asks.cores, Some(MilliCores::cores(4)));
    assert_eq!(step.should_ask.memory, Some(Bytes(2_000_000_000)));
}

#[test]
fn jobs_of_slurm_hold_what_their_steps_held() {
    let text = "JobID|JobName|State|Elapsed|TotalCPU|MaxRSS|ReqMem|AllocCPUS|Start|End\n\
        7|align|COMPLETED|01:00:00|02:00:00||4Gc|2|2024-03-01T10:00:00|2024-03-01T11:00:00\n\
        7.batch|batch|COMPLETED|01:00:00|02:00:00|1024K||2|||\n\
        7.0|star|COMPLETED|01:00:00|02:00:00|2097152K||2|||\n\
        8|align|RUNNING|00:10:00|00:00:00||8G|2|2024-03-01T12:00:00|Unknown\n\
        9|align|OUT_OF_MEMORY|00:10:00|00:00:00||8G|2|soon|Unknown\n";
    let imported = read(Kind::Sacct, text);
    assert_eq!((imported.runs, imported.skipped), (1, 1));
    assert_eq!(
        imported.bad[0].to_string(),
        "6: Start: 'soon' cannot be read"
    );
    let step = only(&imported);
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
    assert_eq!(step.should_ask.memory, Some(Bytes::mib(2_560)));
    assert_eq!(step.last_seen.to_string(), "2024-03-01T11:00:00Z");
}

#[test]
fn who_wrote_a_file_is_read_from_its_names() {
    let check = |head, expect| assert_eq!(Kind::of(head), expect, "{head}");
    check("task_id\tname\trealtime\n", Some(Kind::Nextflow));
    check("s\th:m:s\tmax_rss", Some(Kind::Snakemake));
    check("JobID|State|Elapsed", Some(Kind::Sacct));
    check("a,b,c", None);
    check("", None);
}

#[test]
fn a_file_without_what_is_needed_says_what() {
    let check = |kind, text: &str, said: &str| {
        let error = Imported::default().read(kind, "f", text).expect_err(said);
        assert!(error.to_string().contains(said), "{error}");
    };
    check(Kind::Nextflow, "", "empty");
    check(
        Kind::Nextflow,
        "realtime\n",
        "no field name: add it to trace.fields",
    );
    check(Kind::Nextflow, "name\texit\n", "no field realtime");
    check(Kind::Snakemake, "max_rss\n", "no field s");
    check(Kind::Sacct, "JobID|State\n", "no field Elapsed");
}

#[test]
fn bad_lines_are_counted_and_only_some_are_kept() {
    let mut text = "name\trealtime\n".to_owned();
    text.extend(std::iter::repeat_n("x\tsoon\n", 500));
    let imported = read(Kind::Nextflow, &text);
    assert_eq!((imported.runs, imported.skipped), (0, 500));
    assert_eq!(imported.bad.len(), MAX_TOLD);
    assert!(imported.advice(None).is_empty());
}
