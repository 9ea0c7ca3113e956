use std::fmt::Write as _;

use ebb_telemetry::money::Usd;

use super::*;
use crate::ports::PutOptions;

const HEAD: &str = "line_item_usage_start_date,line_item_usage_end_date,line_item_line_item_type,\
                    line_item_product_code,line_item_currency_code,line_item_unblended_cost,\
                    line_item_resource_id,line_item_usage_type,resource_tags";

/// Hours of a machine and of a bucket, from one hour to another.
fn hours(from: &str, to: &str) -> String {
    let (mut at, to): (Timestamp, Timestamp) =
        (from.parse().expect("a time"), to.parse().expect("a time"));
    let mut text = format!("{HEAD}\n");
    while at < to {
        let end = at + 1.hour();
        for (code, cost, resource) in [
            ("AmazonEC2", "0.0960000004", "i-0123456789abcdef0"),
            ("AmazonS3", "0.0000000004", "bills"),
        ] {
            let row = format!("{at},{end},Usage,{code},USD,{cost},{resource},BoxUsage,");
            writeln!(text, "{row}\"{{\"\"user_team\"\":\"\"tides\"\"}}\"").expect("written");
        }
        at = end;
    }
    text
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn export(objects: &StoreObjects) -> CostExport<'static> {
    let tags = BTreeSet::from(["team".to_owned()]);
    CostExport::new("s3://bills/ebb/", objects.clone(), &tags)
}

/// The objects of a folder, whose files were written at a time.
fn folder(files: &[(&str, &str, &str)]) -> (tempfile::TempDir, StoreObjects) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, written_at) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        std::fs::write(&path, text).expect("written");
        let file = std::fs::File::open(&path).expect("it opens");
        file.set_modified(at(written_at).into()).expect("set");
    }
    let objects = StoreObjects::open(folder.path().to_str().expect("text")).expect("it opens");
    (folder, objects)
}

fn days(bill: &[BilledDay]) -> Vec<String> {
    let day = |day: &BilledDay| {
        let estimated = if day.estimated { " estimated" } else { "" };
        format!("{} {}{estimated}", day.day, day.total.to_decimal())
    };
    bill.iter().map(day).collect()
}

const OCTOBER: &str = "data/BILLING_PERIOD=2026-10/ebb-00001.csv";
const NOVEMBER: &str = "data/BILLING_PERIOD=2026-11/ebb-00001.csv";

#[tokio::test]
async fn the_newest_exports_of_two_months_are_one_bill() {
    let october = hours("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z");
    let november = hours("2026-11-01T00:00:00Z", "2026-11-03T09:00:00Z");
    let (_folder, objects) = folder(&[
        (OCTOBER, &october, "2026-11-02T07:00:00Z"),
        (NOVEMBER, &november, "2026-11-03T12:00:00Z"),
    ]);
    let export = export(&objects);
    let now = at("2026-11-03T13:00:00Z");
    let by_day = export.by_day(now, &[]).await.expect("no request");
    let found = days(&by_day);
    assert_eq!(found.len(), 14);
    // 24 x 0.0960000008, rounded once.
    assert_eq!(found[0], "2026-10-20 2.304");
    assert_eq!(
        found[11..],
        [
            "2026-10-31 2.304",
            "2026-11-01 2.304",
            "2026-11-02 2.304 estimated"
        ]
    );
    for day in &by_day {
        assert_eq!(day.by_service.values().copied().sum::<Usd>(), day.total);
        assert_eq!(day.by_tag["team"]["tides"], day.total);
        assert_eq!(day.of_machines, Some(Usd::from_micros(2_304_000)));
    }
    let by_resource = export.by_resource(now).await.expect("no request");
    let node = NodeId::new("i-0123456789abcdef0").expect("an id");
    assert_eq!(by_resource[&node].by_day.len(), 14);
    assert_eq!(export.gaps(now), []);
}

#[tokio::test]
async fn days_that_an_export_has_in_part_are_left_out() {
    let check = async |to: &str, written_at: &str, now: &str, last: &str, gaps: &[&str]| {
        let text = hours("2026-11-01T00:00:00Z", to);
        let (_folder, objects) = folder(&[(NOVEMBER, &text, written_at)]);
        let export = export(&objects);
        let by_day = export.by_day(at(now), &[]).await.expect("no request");
        let found = days(&by_day).pop().unwrap_or_default();
        assert_eq!(found, last);
        let found: Vec<_> = export
            .gaps(at(now))
            .into_iter()
            .map(|gap| gap.scope)
            .collect();
        assert_eq!(found, gaps, "{now}");
    };
    let (end, written) = ("2026-11-03T09:00:00Z", "2026-11-03T10:00:00Z");
    check(
        end,
        written,
        "2026-11-04T08:00:00Z",
        "2026-11-02 2.304 estimated",
        &[],
    )
    .await;
    let part = "cost export s3://bills/ebb 2026-11-03";
    check(
        end,
        written,
        "2026-11-06T08:00:00Z",
        "2026-11-02 2.304 estimated",
        &[part],
    )
    .await;
    // The time of a copy does not make its last day whole.
    let late = "2026-11-16T00:00:00Z";
    check(end, late, late, "2026-11-02 2.304", &[part]).await;
    check("2026-11-04T00:00:00Z", late, late, "2026-11-03 2.304", &[]).await;
    let nothing = "cost export s3://bills/ebb";
    check(end, written, "2026-12-20T00:00:00Z", "", &[nothing]).await;
}

#[tokio::test]
async fn a_folder_without_months_has_only_whole_days() {
    let text = hours("2026-11-01T07:00:00Z", "2026-11-05T00:00:00Z");
    let late = hours("2026-11-05T00:00:00Z", "2026-11-06T05:00:00Z");
    let (_folder, objects) = folder(&[
        ("one.csv", &text, "2026-11-08T00:00:00Z"),
        ("two.csv", &late, "2026-11-08T00:00:00Z"),
    ]);
    let export = export(&objects);
    let now = at("2026-11-08T00:00:00Z");
    let found = days(&export.by_day(now, &[]).await.expect("no request"));
    assert_eq!(
        found,
        [
            "2026-11-02 2.304",
            "2026-11-03 2.304",
            "2026-11-04 2.304",
            "2026-11-05 2.304"
        ]
    );
}

#[tokio::test]
async fn days_without_usage_between_others_are_named() {
    let before = hours("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z");
    let after = hours("2026-11-05T00:00:00Z", "2026-11-06T00:00:00Z");
    let (_, after) = after.split_once('\n').expect("rows");
    // A fee of the whole month is no usage of these days.
    let fee = "2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,SavingsPlanUpfrontFee,ComputeSavingsPlans,USD,0,,,\n";
    let text = before + after + fee;
    let (_folder, objects) = folder(&[(NOVEMBER, &text, "2026-11-08T00:00:00Z")]);
    let export = export(&objects);
    let now = at("2026-11-08T00:00:00Z");
    assert_eq!(export.by_day(now, &[]).await.expect("no request").len(), 5);
    let gaps = export.gaps(now);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(
        gaps[0].reason,
        "no usage on 2026-11-03, 2026-11-04; if there was any, deliver these days again"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_read_leaves_out_its_month() {
    let october = hours("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z");
    let written = "2026-11-05T00:00:00Z";
    let second = "data/BILLING_PERIOD=2026-11/ebb-00002.csv";
    let november = hours("2026-11-01T00:00:00Z", "2026-11-04T00:00:00Z");
    let (_folder, objects) = folder(&[
        (OCTOBER, &october, written),
        (NOVEMBER, &november, written),
        (second, "time,cost\n", written),
    ]);
    let export = export(&objects);
    let now = at("2026-11-05T06:00:00Z");
    let found = days(&export.by_day(now, &[]).await.expect("no request"));
    assert_eq!(found.last().map(String::as_str), Some("2026-10-31 2.304"));
    let gaps = export.gaps(now);
    assert_eq!(
        gaps[0].scope,
        format!("cost export s3://bills/ebb/{second}")
    );
    assert!(gaps[0].reason.contains("no column of CUR 2.0"), "{gaps:?}");
    assert_eq!(gaps[1].scope, "cost export s3://bills/ebb 2026-11");
    assert_eq!(gaps.len(), 2);
}

#[tokio::test]
async fn invalid_rows_are_named_and_the_others_count() {
    let text = hours("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
    let text = text.replacen(",0.0960000004,", ",much,", 1);
    let (_folder, objects) = folder(&[(NOVEMBER, &text, "2026-11-05T00:00:00Z")]);
    let export = export(&objects);
    let now = at("2026-11-05T06:00:00Z");
    assert_eq!(
        days(&export.by_day(now, &[]).await.expect("read")),
        ["2026-11-01 2.208"]
    );
    let gaps = export.gaps(now);
    let place = format!("{NOVEMBER}:2: line_item_unblended_cost");
    assert_eq!(gaps[0].scope, place);
    assert_eq!(
        gaps[1].reason,
        format!(
            "1 of 48 rows are not part of the bill; the first is {place}: 'much' is not an amount \
             below 1000000000"
        )
    );
    // The other 23 hours are not the price of a day.
    let by_resource = export.by_resource(now).await.expect("read");
    assert_eq!(by_resource, BTreeMap::new());
    assert_eq!(
        gaps[2].reason,
        "1 machine day has no cost of the machine, because a row of the machine is invalid"
    );
    assert_eq!(gaps.len(), 3);
}

#[tokio::test]
async fn rows_in_other_currencies_are_one_gap() {
    let text = hours("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
    let text = text.replace("AmazonEC2,USD,", "AmazonEC2,EUR,");
    let text = text.replacen("AmazonS3,USD,", "AmazonS3,CHF,", 1);
    let (_folder, objects) = folder(&[(NOVEMBER, &text, "2026-11-05T00:00:00Z")]);
    let export = export(&objects);
    let now = at("2026-11-05T06:00:00Z");
    let by_day = export.by_day(now, &[]).await.expect("read");
    assert_eq!(days(&by_day), ["2026-11-01 0.00"]);
    let gaps = export.gaps(now);
    assert_eq!(
        gaps[0].reason,
        "25 of 48 rows are not in US dollars and not part of the bill (rows by currency: CHF 1, \
         EUR 24); their machines have no cost of their own; export the bill in US dollars"
    );
    assert_eq!(gaps.len(), 1, "{gaps:?}");
}

#[tokio::test]
async fn a_file_that_is_its_own_copy_is_refused_and_a_few_equal_rows_are_a_gap() {
    let head = "ChargePeriodStart,ChargePeriodEnd,EffectiveCost,BillingCurrency,ServiceName,\
                ServiceCategory,ChargeCategory,ResourceId,SkuId";
    let row = |hour: usize, resource: &str, sku: usize| {
        let (from, to) = (format!("2026-11-01T{hour:02}"), format!("T{:02}", hour + 1));
        format!("{from}:00:00Z,2026-11-01{to}:00:00Z,0.5,USD,EC2,Compute,Usage,{resource},{sku}\n")
    };
    let rows: String = (0..23).map(|hour| row(hour, "rack-1", 1)).collect();
    let check = async |rows: &str, expect: Option<&str>, total: Option<&str>| {
        let last = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z,0.25,USD,EC2,Compute,Usage,rack-1,1";
        let text = format!("{head}\n{rows}{last}\n");
        let (_folder, objects) = folder(&[("bill.csv", &text, "2026-11-05T00:00:00Z")]);
        let export = export(&objects);
        let bill = export.bill(at("2026-11-05T06:00:00Z")).await;
        let mut gaps = bill.gaps.iter().filter(|gap| gap.reason.contains("repeat"));
        match expect {
            Some(words) => assert!(
                gaps.any(|gap| gap.reason.contains(words)),
                "{:?}",
                bill.gaps
            ),
            None => assert_eq!(gaps.next(), None),
        }
        let first = bill.by_day.first().map(|day| day.total.to_decimal());
        assert_eq!(first.as_deref(), total, "{:?}", bill.gaps);
    };
    check(&rows, None, Some("11.50")).await;
    // Another meter of the same machine, and equal rows without a resource.
    let other = rows.clone() + &row(5, "rack-1", 2) + &row(5, "", 1).repeat(9);
    check(&other, None, Some("16.50")).await;
    let words = "1 of 25 compared rows repeat an earlier row of the file; the first is bill.csv:25";
    check(
        &(rows.clone() + &row(5, "rack-1", 1)),
        Some(words),
        Some("12.00"),
    )
    .await;
    let words = "23 of 47 compared rows repeat an earlier row of the file; the first is bill.csv:25; \
                 their costs would count twice";
    check(&rows.repeat(2), Some(words), None).await;
}

#[tokio::test]
async fn line_items_of_a_report_are_compared_by_their_ids() {
    let text = hours("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
    let with_id = |id: &str| {
        let mut lines = text.lines();
        let head = lines.next().expect("a header");
        let rows: String = lines.map(|line| format!("{line},{id}\n")).collect();
        (format!("{head},identity_line_item_id\n"), rows)
    };
    let check = async |text: &str, is_refused: bool| {
        let (_folder, objects) = folder(&[("bill.csv", text, "2026-11-05T00:00:00Z")]);
        let bill = export(&objects).bill(at("2026-11-05T06:00:00Z")).await;
        let repeats = |gap: &Gap| gap.reason.contains("repeat an earlier row");
        assert_eq!(bill.gaps.iter().any(repeats), is_refused, "{:?}", bill.gaps);
    };
    let (head, rows) = with_id("a");
    check(&format!("{head}{rows}{rows}"), true).await;
    check(&format!("{head}{rows}{}", with_id("b").1), false).await;
    let plain = text.lines().skip(1).map(|line| format!("{line}\n"));
    let plain: String = plain.collect();
    check(&format!("{text}{plain}"), false).await;
}

#[tokio::test]
async fn a_place_without_a_bill_is_a_gap_and_a_missing_folder_an_error() {
    let objects = StoreObjects::in_memory();
    let now = at("2026-11-05T06:00:00Z");
    let export = export(&objects);
    assert_eq!(export.by_day(now, &[]).await, Ok(Vec::new()));
    let gaps = export.gaps(now);
    assert_eq!(
        gaps[0].reason,
        "no file with the ending .csv, .csv.gz or .parquet"
    );
    let missing = CostExport::open("/no/such/folder", &BTreeSet::new()).err();
    let words = missing.map(|error| error.to_string()).unwrap_or_default();
    assert!(words.contains("the folder /no/such/folder"), "{words}");
}

#[tokio::test]
async fn the_version_changes_with_the_files_and_an_unfinished_export_is_known() {
    let objects = StoreObjects::in_memory();
    let put = async |key: &str| {
        let put = objects.put(key, b"x".to_vec(), PutOptions::default());
        put.await.expect("stored");
    };
    let month = Timestamp::now().strftime("%Y-%m").to_string();
    let first = format!("data/BILLING_PERIOD={month}/a.csv");
    put(&first).await;
    let one = export(&objects).version().await;
    assert_eq!(export(&objects).version().await, one);
    put(&format!("metadata/BILLING_PERIOD={month}/a-Manifest.json")).await;
    let two = export(&objects).version().await;
    assert!(matches!(two, BillVersion::Is(_)) && two != one, "{two:?}");
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    put(&first).await;
    assert_eq!(export(&objects).version().await, BillVersion::Unfinished);
}

#[tokio::test]
async fn two_deliveries_of_one_month_in_a_folder_do_not_count_twice() {
    let first = hours("2026-10-25T00:00:00Z", "2026-10-30T00:00:00Z");
    let next = hours("2026-10-25T00:00:00Z", "2026-10-31T00:00:00Z");
    let other = hours("2026-10-31T00:00:00Z", "2026-11-01T00:00:00Z");
    let check = async |files: &[(&str, &str, &str)], expect: Result<usize, &str>| {
        let (_folder, objects) = folder(files);
        let export = export(&objects);
        let bill = export.bill(at("2026-11-03T13:00:00Z")).await;
        let gaps: Vec<String> = bill
            .gaps
            .iter()
            .map(|gap| format!("{}: {}", gap.scope, gap.reason))
            .collect();
        match expect {
            Ok(days) => assert_eq!(bill.by_day.len(), days, "{gaps:?}"),
            Err(gap) => {
                assert_eq!(gaps.first().map(String::as_str), Some(gap));
                assert!(bill.by_day.is_empty());
            }
        }
    };
    let written = "2026-11-03T12:00:00Z";
    let twice = |days: &str| {
        format!(
            "cost export s3://bills/ebb/b.csv: it has {days} on with the same rows as a.csv, so \
             their costs would count twice; keep the newest file of each month only"
        )
    };
    let of_days = twice("5 days from 2026-10-25");
    let two = [("a.csv", &*first, written), ("b.csv", &*next, written)];
    check(&two, Err(&of_days)).await;
    check(
        &[("b.csv", &next, written), ("c.csv", &other, written)],
        Ok(7),
    )
    .await;
    // Two accounts with one equal fee.
    let account = |name: &str| {
        let day = "2026-10-31T00:00:00Z,2026-11-01T00:00:00Z";
        format!("{HEAD},line_item_usage_account_id\n{day},Usage,AmazonVPC,USD,1,,,,{name}\n")
    };
    let (one, two) = (account("1"), account("2"));
    check(&[("a.csv", &one, written), ("b.csv", &two, written)], Ok(1)).await;
    // A row of a month that begins before the days of the report.
    let month = "2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,Usage,AmazonEC2,USD,31,box,BoxUsage,\n";
    let (one, two) = (first + month, format!("{HEAD}\n{month}"));
    let of_month = twice("1 day from 2026-10-20");
    let two = [("a.csv", &*one, written), ("b.csv", &*two, written)];
    check(&two, Err(&of_month)).await;
}

#[tokio::test]
async fn a_later_delivery_with_other_amounts_or_tags_does_not_count_twice() {
    let written = "2026-11-03T12:00:00Z";
    let check = async |first: &str, next: &str, is_twice: bool| {
        let (_folder, objects) = folder(&[("a.csv", first, written), ("b.csv", next, written)]);
        let export = export(&objects);
        let bill = export.bill(at("2026-11-03T13:00:00Z")).await;
        let of_copies = |gap: &Gap| gap.reason.contains("their costs would count twice");
        assert_eq!(bill.gaps.iter().any(of_copies), is_twice, "{:?}", bill.gaps);
        assert!(!is_twice || bill.by_day.is_empty());
    };
    let first = hours("2026-10-25T00:00:00Z", "2026-10-27T00:00:00Z");
    check(&first, &first.replace("0.0960000004", "0.09"), true).await;
    check(&first, &first.replace("tides", "reefs"), true).await;
    let longer = hours("2026-10-25T00:00:00Z", "2026-10-28T00:00:00Z");
    check(&first, &longer.replace("0.0960000004", "0.09"), true).await;
    // Other machines, another part of the charges of a machine, and its discounts.
    let other = first.replace("i-0123456789abcdef0", "i-0123456789abcdef1");
    check(&first, &other, false).await;
    check(&first, &first.replace("BoxUsage", "EBSOptimized"), false).await;
    check(&first, &first.replace("0.0960000004", "-0.01"), false).await;
    // Too few rows to know a day.
    let few = hours("2026-10-25T00:00:00Z", "2026-10-25T19:00:00Z");
    check(&few, &few.replace("0.0960000004", "0.09"), false).await;
}

#[tokio::test]
async fn rows_with_tags_that_cannot_be_read_count_and_are_named() {
    let text = hours("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
    let tags = "\"{\"\"user_team\"\":\"\"tides\"\"}\"";
    let text = text.replacen(tags, "team=tides", 3);
    let (_folder, objects) = folder(&[(NOVEMBER, &text, "2026-11-05T00:00:00Z")]);
    let export = export(&objects);
    let now = at("2026-11-05T06:00:00Z");
    let by_day = export.by_day(now, &[]).await.expect("read");
    assert_eq!(days(&by_day), ["2026-11-01 2.304"]);
    assert_eq!(by_day[0].by_tag["team"][""], Usd::from_micros(192_000));
    let gaps = export.gaps(now);
    assert_eq!(
        gaps[0].reason,
        format!(
            "the tags of 3 of 48 rows cannot be read, so their costs have no tags; the first is \
             {NOVEMBER}:2: resource_tags: 'team=tides' is not a map of keys and values; export the \
             column unchanged"
        )
    );
    assert_eq!(gaps.len(), 1);
}

#[tokio::test]
async fn a_tax_of_the_month_does_not_make_the_first_day_whole() {
    let text = hours("2026-11-01T07:00:00Z", "2026-11-03T00:00:00Z");
    let tax = "2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,Tax,AmazonEC2,USD,3,,,\n";
    let written = "2026-11-08T00:00:00Z";
    let (_folder, objects) = folder(&[("one.csv", &(text + tax), written)]);
    let export = export(&objects);
    let now = at("2026-11-08T00:00:00Z");
    let found = days(&export.by_day(now, &[]).await.expect("no request"));
    assert_eq!(found, ["2026-11-02 2.304"]);
}

#[tokio::test]
async fn an_export_without_the_column_of_tags_is_named() {
    let text = hours("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
    let text = text.replacen("resource_tags", "tags", 1);
    let (_folder, objects) = folder(&[(NOVEMBER, &text, "2026-11-05T00:00:00Z")]);
    let export = export(&objects);
    let now = at("2026-11-05T06:00:00Z");
    assert_eq!(export.by_day(now, &[]).await.expect("read").len(), 1);
    let gaps = export.gaps(now);
    assert_eq!(
        gaps[0].reason,
        "column resource_tags is missing, so costs have no tags; add it to the query of the export"
    );
    assert_eq!(gaps.len(), 1);
}
