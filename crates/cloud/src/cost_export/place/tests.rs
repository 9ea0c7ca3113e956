use super::*;

fn file(key: &str, second: i64) -> Listed {
    Listed {
        key: key.to_owned(),
        bytes: 1,
        modified_at: Timestamp::from_second(second).expect("a time"),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn days() -> DayRange {
    DayRange {
        first: "2026-10-25".parse().expect("a day"),
        end: "2026-11-08".parse().expect("a day"),
    }
}

/// The chosen months with their files.
fn chosen(keys: &[(&str, i64)]) -> Result<Vec<String>, String> {
    let listed = keys.iter().map(|(key, second)| file(key, *second));
    let periods = choose(listed.collect(), days()).map_err(|problem| problem.to_string())?;
    let periods = periods.into_iter().map(|period| {
        let files: Vec<_> = period.files.iter().map(|file| file.key.as_str()).collect();
        let month = period.month.as_deref().unwrap_or("none");
        format!("{month}: {}", files.join(" "))
    });
    Ok(periods.collect())
}

#[test]
fn the_files_of_the_months_of_the_report_are_chosen() {
    let check = |keys: &[(&str, i64)], expect: Result<&[&str], &str>| {
        let expect = expect.map(|all| all.iter().map(|&one| one.to_owned()).collect());
        assert_eq!(chosen(keys), expect.map_err(str::to_owned), "{keys:?}");
    };
    check(
        &[
            ("ebb/data/BILLING_PERIOD=2026-09/ebb-00001.csv.gz", 1),
            ("ebb/data/BILLING_PERIOD=2026-10/ebb-00001.csv.gz", 1),
            ("ebb/data/BILLING_PERIOD=2026-11/ebb-00001.csv.gz", 1),
            ("ebb/data/BILLING_PERIOD=2026-11/ebb-00002.csv.gz", 1),
            ("ebb/metadata/BILLING_PERIOD=2026-11/ebb-Manifest.json", 2),
            ("ebb/data/BILLING_PERIOD=x/ebb-00001.csv.gz", 1),
        ],
        Ok(&[
            "2026-10: ebb/data/BILLING_PERIOD=2026-10/ebb-00001.csv.gz",
            "2026-11: ebb/data/BILLING_PERIOD=2026-11/ebb-00001.csv.gz \
             ebb/data/BILLING_PERIOD=2026-11/ebb-00002.csv.gz",
        ]),
    );
    check(
        &[
            ("data/billing_period=2026-11/b-1/ebb.snappy.parquet", 3),
            ("data/billing_period=2026-11/a-2/ebb.snappy.parquet", 2),
        ],
        Ok(&["2026-11: data/billing_period=2026-11/b-1/ebb.snappy.parquet"]),
    );
    check(
        &[("october.CSV", 1), ("november.csv.gz", 1), ("notes.txt", 1)],
        Ok(&["none: october.CSV november.csv.gz"]),
    );
    check(
        &[
            ("cur/data/BILLING_PERIOD=2026-11/a.parquet", 1),
            ("focus/data/BILLING_PERIOD=2026-11/a.parquet", 1),
        ],
        Err("2 exports: cur, focus; name the folder of one of them"),
    );
    check(
        &[("2026/a.csv", 1), ("b.csv", 1)],
        Err(
            "data files in 2 folders: this folder, 2026; name one of them, or store each month in \
             a folder such as BILLING_PERIOD=2026-10",
        ),
    );
    check(
        &[],
        Err("no file with the ending .csv, .csv.gz or .parquet"),
    );
    check(&[("data/BILLING_PERIOD=2026-01/a.csv", 1)], Ok(&[]));
}

#[test]
fn the_newest_manifest_names_the_files() {
    let keys = [
        ("data/BILLING_PERIOD=2026-11/1-a/ebb-00001.csv.gz", 1),
        ("data/BILLING_PERIOD=2026-11/2-b/ebb-00001.csv.gz", 3),
        ("data/BILLING_PERIOD=2026-11/2-b/ebb-00002.csv.gz", 3),
        ("data/BILLING_PERIOD=2026-11/3-c/ebb-00001.csv.gz", 5),
        ("metadata/BILLING_PERIOD=2026-11/1-a/ebb-Manifest.json", 2),
        ("metadata/BILLING_PERIOD=2026-11/2-b/ebb-Manifest.json", 4),
    ];
    let listed = keys.map(|(key, second)| file(key, second));
    let period = choose(listed.to_vec(), days())
        .expect("one export")
        .remove(0);
    let manifest = period.manifest.as_ref().expect("a manifest");
    assert!(manifest.key.contains("2-b"), "{manifest:?}");
    assert!(period.is_unfinished());
    let select = |manifest: &str| {
        let mut period = period.clone();
        let selected = period.select(manifest.as_bytes());
        selected
            .map(|()| period)
            .map_err(|problem| problem.to_string())
    };
    let path = "s3://bills/x/data/BILLING_PERIOD=2026-11/2-b/ebb-0000";
    let whole = format!(
        r#"{{"columns":["a.csv"],"x":{{"dataFiles":["{path}1.csv.gz","{path}2.csv.gz"]}},
        "additionalOutputFiles":["s3://bills/create.csv"]}}"#
    );
    let whole = whole.replace(r#""columns":["a.csv"],"#, r#""columns":["a"],"#);
    let selected = select(&whole).expect("all files exist");
    assert_eq!(selected.files.len(), 2);
    assert!(!selected.is_unfinished(), "a later refresh does not count");
    let check = |manifest: &str, expect: &str| {
        let problem = select(manifest).expect_err(expect);
        assert!(problem.contains(expect), "{problem}");
    };
    check(
        &format!(r#"["{path}1.csv.gz","{path}9.csv.gz"]"#),
        "1 of its 2 data files are missing",
    );
    check("{}", "it names no data file");
    check("{", "cannot be used: EOF");
    check(
        r#"["s3://bills/otherdata/BILLING_PERIOD=2026-11/x.csv"]"#,
        "1 of its 1 data files",
    );
}

#[test]
fn the_name_of_a_folder_is_the_time_of_a_refresh_if_its_files_were_copied() {
    let of = |kind: &str, folder: &str, name: &str| {
        format!("{kind}/BILLING_PERIOD=2026-11/{folder}/{name}")
    };
    let (old, new) = (
        "2026-11-03T08:00:00.000Z-0a1b",
        "2026-11-04T08:00:00.000Z-2c3d",
    );
    let copied_at = at("2026-11-08T00:00:00Z").as_second();
    let data = |folder| of("data", folder, "ebb-00001.csv.gz");
    let manifest = |folder| of("metadata", folder, "ebb-Manifest.json");
    let mut listed = vec![
        file(&data(new), copied_at),
        file(&data(old), copied_at + 1),
        file(&manifest(new), copied_at + 2),
        file(&manifest(old), copied_at + 3),
    ];
    let choose = |listed: &[Listed]| {
        choose(listed.to_vec(), days())
            .expect("one export")
            .remove(0)
    };
    let mut period = choose(&listed);
    let newest = period.manifest.as_ref().map(|manifest| &*manifest.key);
    assert_eq!(newest, Some(&*manifest(new)));
    let named = format!(r#"["s3://bills/{}"]"#, data(new));
    period.select(named.as_bytes()).expect("the file exists");
    let delivered = at("2026-11-04T08:00:00Z");
    assert_eq!(period.delivered_at(), Some(delivered));
    assert!(!period.is_unfinished());
    listed.truncate(2);
    let files = choose(&listed).files;
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].key, data(new));
    let early = file(&data(new), 5);
    assert_eq!(
        choose(&[early]).delivered_at(),
        Timestamp::from_second(5).ok()
    );
}
