use ebb_model::inventory::storage::Volume;
use ebb_model::report::selection::{Selection, TagFilter};
use ebb_telemetry::money::Usd;

use crate::testing::{World, instance, volume};

use super::*;

/// A report with an idle node of Ada that saves $140.16, and a volume without owner that saves $40.
fn report() -> Report {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, 60, |_, _| {});
    let tags = [("team".to_owned(), "genomics".to_owned())];
    let lost = Volume {
        tags: tags.into(),
        ..volume(30, "gp3", 500)
    };
    world
        .inventory
        .storage
        .volumes
        .insert(lost.id.clone(), lost);
    world.evaluate()
}

#[test]
fn findings_are_selected_and_summed_up() {
    use ebb_model::finding_kind::FindingKind::{IdleNode, UnattachedVolume};
    let check = |selection: Selection, words: &str, expect: &[FindingKind]| {
        let mut report = report();
        assert_eq!(report.findings.len(), 2);
        selection.apply(&mut report);
        let kinds: Vec<FindingKind> = report.findings.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, expect, "{words}");
        let costs = report.findings.iter().filter_map(|f| f.cost.as_ref());
        let sum: Usd = costs.map(|cost| cost.saving_a_month).sum();
        assert_eq!(report.totals.saving_a_month, sum);
        let selected = report.selected.map(|one| (one.by, one.left_out));
        let expect = (words.to_owned(), 2 - expect.len());
        assert_eq!(selected, (!words.is_empty()).then_some(expect));
    };
    let all = Selection::default;
    let tag = |key: &str, value: Option<&str>| TagFilter {
        key: key.to_owned(),
        value: value.map(str::to_owned),
    };
    check(all(), "", &[IdleNode, UnattachedVolume]);
    let owners = vec![Some("ada".to_owned())];
    check(Selection { owners, ..all() }, "owner ada", &[IdleNode]);
    let owners = vec![None, Some("ada".to_owned())];
    let both = [IdleNode, UnattachedVolume];
    check(Selection { owners, ..all() }, "owner nobody or ada", &both);
    let kinds = vec![UnattachedVolume];
    check(
        Selection { kinds, ..all() },
        "kind unattached_volume",
        &[UnattachedVolume],
    );
    let tags = vec![tag("team", Some("genomics"))];
    check(
        Selection { tags, ..all() },
        "tag team=genomics",
        &[UnattachedVolume],
    );
    let tags = vec![tag("Owner", None)];
    check(Selection { tags, ..all() }, "tag Owner", &[IdleNode]);
    let tags = vec![tag("team", Some("physics"))];
    check(Selection { tags, ..all() }, "tag team=physics", &[]);
    let min_saving = Some(Usd::from_micros(100_000_000));
    check(
        Selection {
            min_saving,
            ..all()
        },
        "saving of at least $100.00 a month",
        &[IdleNode],
    );
    let mixed = Selection {
        kinds: vec![IdleNode],
        min_saving: Some(Usd::from_micros(200_000_000)),
        ..all()
    };
    check(
        mixed,
        "kind idle_node, saving of at least $200.00 a month",
        &[],
    );
}
