//! Tests of values from the file and the environment, and of refused values.

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    with(text, &[])
}

fn with(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables.iter();
    let owned = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::parse(text, Path::new("probe.toml"), owned).map_err(|error| error.to_string())
}

#[test]
fn the_watch_socket_is_in_the_folder_that_systemd_creates() {
    let check = |folders: Option<&str>, expect: Option<&str>| {
        let socket = usual_watch_socket(folders.map(OsStr::new));
        assert_eq!(socket, expect.map(PathBuf::from), "{folders:?}");
    };
    check(Some("/run/ebb"), Some("/run/ebb/watch.sock"));
    check(Some("/run/ebb:/run/x"), Some("/run/ebb/watch.sock"));
    check(Some(""), None);
    check(None, None);
}

#[test]
fn the_environment_goes_over_the_file() {
    let file = "bucket = \"b\"\ninterval_seconds = 30\n";
    let set = [
        ("EBB_PROBE_BUCKET", "12"),
        ("EBB_PROBE_SAMPLE_SECONDS", "5"),
        ("EBB_PROBE_EXPORT_ARGS", "true"),
        ("EBB_PROBE_REGION", "us-east-1"),
    ];
    let expect = Config {
        bucket: Some("12".into()),
        interval_seconds: 30,
        sample_seconds: 5,
        export_args: true,
        region: Some(Region::new("us-east-1").expect("a region")),
        ..Config::default()
    };
    assert_eq!(with(file, &set), Ok(expect));
    let check = |name: &str, value: &str, expect: &str| {
        let message = with(file, &[(name, value)]).expect_err(name);
        assert!(message.contains(expect), "{name}={value}: {message}");
    };
    check(
        "EBB_PROBE_BUCKETT",
        "b",
        "EBB_PROBE_BUCKETT in the environment: unknown field",
    );
    check(
        "EBB_PROBE_FILES_DEPTH",
        "deep",
        "FILES_DEPTH in the environment: invalid type",
    );
    check(
        "EBB_PROBE_SAMPLE_SECONDS",
        "31",
        "sample_seconds is 31: scans are 1 second to",
    );
}

#[test]
fn a_file_sets_what_it_names_and_leaves_the_rest() {
    assert_eq!(parse(""), Ok(Config::default()));
    let config = parse("queue_url = \"https://q\"\nbucket = \"b\"\ninterval_seconds = 30\n");
    let config = config.expect("valid");
    assert_eq!((config.interval_seconds, config.sample_seconds), (30, 10));
    let cloud = config.cloud().expect("named");
    assert_eq!((cloud.queue_url, cloud.bucket), ("https://q", "b"));
    let short = parse("interval_seconds = 5").expect("valid");
    assert_eq!(short.sample_seconds, 5);
}

#[test]
fn of_several_queues_a_node_sends_to_that_of_its_shard() {
    let check = |queue_url: &str, expect: &str| {
        let bucket = "bucket";
        let cloud = Cloud { queue_url, bucket };
        let node = NodeId::new("i-0abc").expect("a name");
        assert_eq!(cloud.queue_of(&node), expect, "{queue_url}");
    };
    check("https://q", "https://q");
    let many: Vec<String> = (0..16).map(|n| format!("https://q-{n}")).collect();
    check(&many.join(","), "https://q-15");
    check(&many.join(", "), "https://q-15");
}

#[test]
fn what_cannot_work_is_refused_with_what_mends_it() {
    let check = |text: &str, expect: &str| {
        let message = parse(text).expect_err(text);
        assert!(message.contains(expect), "{text}: {message}");
    };
    check(
        "\nbuckett = \"b\"",
        "probe.toml, line 2: unknown field `buckett`",
    );
    check("bucket = 3", "line 1: invalid type");
    check(
        "interval_seconds = 0",
        "interval_seconds is 0: an interval has 1 to",
    );
    check(
        "sample_seconds = 61",
        "sample_seconds is 61: scans are 1 second to",
    );
    check("spool_max_bytes = 5", "spool_max_bytes is 5");
    check("region = \"a b\"", "line 1: region 'a b' holds a character");
    check(
        "\n\nregion = \"\"",
        "line 3: region is not set; set it from `terraform output`",
    );
    for text in ["bucket = \"b\"", "queue_url = \"\"\nbucket = \"b\""] {
        let config = parse(text).expect("valid");
        let error = config.cloud().expect_err("no queue");
        assert!(error.to_string().starts_with("queue_url is not set"));
    }
    let error = Config::read(Path::new("/nowhere/probe.toml")).expect_err("not there");
    assert!(
        error
            .to_string()
            .contains("failed to read /nowhere/probe.toml")
    );
}

#[test]
fn passes_fill_the_interval_evenly() {
    let check = |interval: u64, sample: u64, expect: (u32, u64)| {
        let config = Config {
            interval_seconds: interval,
            sample_seconds: sample,
            ..Config::default()
        };
        let (count, period) = (expect.0, Duration::from_millis(expect.1));
        assert_eq!(config.scans(), (count, period), "{interval} {sample}");
    };
    check(60, 10, (6, 10_000));
    check(60, 8, (8, 7_500));
    check(2, 2, (1, 2_000));
    let short = Config::default().with_interval(2).expect("valid");
    assert_eq!(short.scans(), (1, Duration::from_secs(2)));
    assert!(Config::default().with_interval(0).is_err());
}
