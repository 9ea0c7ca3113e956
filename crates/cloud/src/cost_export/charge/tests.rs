use super::*;
use crate::cost_export::columns::ExportColumn as C;

/// A row of text, as CSV has it.
struct TextRow(Vec<(C, &'static str)>);

impl ExportRow for TextRow {
    fn cell(&self, column: ExportColumn) -> Cell<'_> {
        let found = self.0.iter().rev().find(|(known, _)| *known == column);
        found.map_or(Cell::Absent, |(_, text)| Cell::Text(text))
    }

    fn hash_of_all(&self) -> Option<u64> {
        None
    }
}

/// Usage of a machine, with these values in place of the usual ones.
fn row(form: ExportForm, changes: &[(C, &'static str)]) -> TextRow {
    let mut cells = match form {
        ExportForm::Cur2 => vec![
            (C::Start, "2026-10-01 05:00:00.000"),
            (C::End, "2026-10-01T06:00:00.000Z"),
            (C::Type, "Usage"),
            (C::Service, "AmazonEC2"),
            (C::UsageType, "USE1-BoxUsage:m5.large"),
            (C::Unit, "Hrs"),
        ],
        ExportForm::Focus => vec![
            (C::Start, "2026-10-01T05:00:00Z"),
            (C::End, "2026-10-01T06:00:00Z"),
            (C::Type, "Usage"),
            (C::Service, "Amazon Elastic Compute Cloud"),
            (C::ServiceCategory, "Compute"),
            (C::Unit, "Hours"),
        ],
    };
    cells.extend([
        (C::Resource, "i-0123456789abcdef0"),
        (C::Currency, "USD"),
        (C::Cost, "0.096"),
    ]);
    cells.extend_from_slice(changes);
    TextRow(cells)
}

#[test]
fn the_cost_of_a_line_is_net_and_amortized() {
    let check = |changes: &[(C, &'static str)], expect: &str| {
        let row = row(ExportForm::Cur2, changes);
        let charge = read(&row, ExportForm::Cur2, &[]).expect(expect);
        assert_eq!(Some(charge.amount), Amount::parse(expect), "{changes:?}");
    };
    check(&[], "0.096");
    check(&[(C::NetCost, "0.08")], "0.08");
    check(&[(C::NetCost, "")], "0.096");
    check(&[(C::Type, "Credit"), (C::Cost, "-0.05")], "-0.05");
    check(&[(C::Type, "Tax"), (C::Cost, "0.02")], "0.02");
    let reserved = (C::Type, "DiscountedUsage");
    check(
        &[reserved, (C::ReservedCost, "0.06"), (C::Cost, "0")],
        "0.06",
    );
    check(
        &[
            reserved,
            (C::ReservedCost, "0.06"),
            (C::NetReservedCost, "0.05"),
        ],
        "0.05",
    );
    let fee = [
        (C::Type, "RIFee"),
        (C::UnusedUpfront, "1.5"),
        (C::UnusedRecurring, "2.5"),
    ];
    check(&fee, "4");
    let net = [(C::NetUnusedUpfront, "1"), (C::NetUnusedRecurring, "2")];
    check(&[fee.as_slice(), &net].concat(), "3");
    check(&[(C::Type, "Fee"), (C::Reservation, "arn:aws:ec2:r")], "0");
    check(&[(C::Type, "Fee")], "0.096");
    let plan = (C::Type, "SavingsPlanCoveredUsage");
    check(&[plan, (C::PlanCost, "0.07")], "0.07");
    check(
        &[plan, (C::PlanCost, "0.07"), (C::NetPlanCost, "0.06")],
        "0.06",
    );
    check(
        &[(C::Type, "SavingsPlanNegation"), (C::Cost, "-0.096")],
        "0",
    );
    check(&[(C::Type, "SavingsPlanUpfrontFee")], "0");
    let unused = [
        (C::Type, "SavingsPlanRecurringFee"),
        (C::Commitment, "1"),
        (C::UsedCommitment, "0.4"),
    ];
    check(&unused, "0.6");
    let net = [(C::PlanRecurring, "1"), (C::NetPlanRecurring, "0.9")];
    check(&[unused.as_slice(), &net].concat(), "0.54");
}

/// Checks the service and the machine of a charge.
fn check_place(form: ExportForm, changes: &[(C, &'static str)], service: &str, node: Option<&str>) {
    let row = row(form, changes);
    let charge = read(&row, form, &[]).expect(service);
    assert_eq!(charge.service, service, "{changes:?}");
    assert_eq!(
        charge.node.as_ref().map(NodeId::as_str),
        node,
        "{changes:?}"
    );
    assert_eq!(charge.start.to_string(), "2026-10-01T05:00:00Z");
}

const ID: Option<&str> = Some("i-0123456789abcdef0");
const ARN: &str = "arn:aws:ec2:us-east-1:111122223333:instance/i-0123456789abcdef0";

#[test]
fn a_charge_of_cur_names_its_service_and_its_machine() {
    let check = |changes: &[(C, &'static str)], service: &str, node: Option<&str>| {
        check_place(ExportForm::Cur2, changes, service, node);
    };
    check(&[], MACHINES, ID);
    check(&[(C::UsageType, "DataTransfer-Out-Bytes")], EC2_OTHER, None);
    check(&[(C::Resource, "vol-0123456789abcdef0")], EC2_OTHER, None);
    check(&[(C::Resource, "")], EC2_OTHER, None);
    check(&[(C::Service, "AWSLambda")], "AWS Lambda", None);
    check(&[(C::Service, "8xmarketplace")], "8xmarketplace", None);
    check(&[(C::Type, "Tax"), (C::Resource, "")], TAX, None);
    check(&[(C::Resource, ARN)], MACHINES, ID);
    check(&[(C::Type, "EdpDiscount")], MACHINES, ID);
    check(
        &[(C::Type, "SavingsPlanCoveredUsage"), (C::PlanCost, "0.05")],
        MACHINES,
        ID,
    );
    for other in ["Credit", "Refund", "Fee"] {
        check(&[(C::Type, other)], MACHINES, None);
    }
}

#[test]
fn a_charge_of_focus_names_its_service_and_its_machine() {
    let check = |changes: &[(C, &'static str)], service: &str, node: Option<&str>| {
        check_place(ExportForm::Focus, changes, service, node);
    };
    let ec2 = "Amazon Elastic Compute Cloud";
    check(&[], ec2, ID);
    check(&[(C::Resource, ARN)], ec2, ID);
    for traffic in ["GB", "1 GiB", "Gigabytes", "GiBy"] {
        check(&[(C::Unit, traffic)], ec2, None);
    }
    check(&[(C::Unit, "GB-Hours")], ec2, ID);
    check(&[(C::Unit, "")], ec2, ID);
    check(&[(C::ServiceCategory, "")], ec2, None);
    for other in ["Purchase", "Credit", "Adjustment"] {
        check(&[(C::Type, other)], ec2, None);
    }
    check(&[(C::Type, "Tax")], TAX, None);
    check(&[(C::Class, "Correction")], ec2, None);
    check(&[(C::Resource, "vol-0123456789abcdef0")], ec2, None);
    check(
        &[(C::Resource, "arn:aws:ec2:us-east-1:1:volume/vol-1")],
        ec2,
        None,
    );
    let storage = [(C::ServiceCategory, "Storage"), (C::Service, "Ceph")];
    check(&storage, "Ceph", None);
    let own = [(C::Resource, "rack-3"), (C::Service, "Machines")];
    check(&own, "Machines", Some("rack-3"));
    let google = "//compute.googleapis.com/projects/4/zones/z-a/instances/11";
    check(&[(C::Resource, google)], ec2, Some("11"));
    for (resource, node) in [
        (
            "/subscriptions/0/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm-0001",
            Some("vm-0001"),
        ),
        ("/subscriptions/0/VIRTUALMACHINES/VM-1", Some("VM-1")),
        (
            "/g/virtualMachineScaleSets/pool/virtualMachines/3",
            Some("pool_3"),
        ),
        (
            "/g/virtualmachinescalesets/p/virtualmachines/0",
            Some("p_0"),
        ),
        ("/g/virtualMachineScaleSets/pool", None),
        ("/g/virtualMachines/vm-1/extensions/agent", None),
        ("/g/virtualMachines/", None),
        ("/g/disks/d", None),
    ] {
        check(&[(C::Resource, resource)], ec2, node);
    }
    check(&[(C::Resource, "two words")], ec2, None);
}

#[test]
fn an_invalid_row_is_named_by_its_column() {
    let check = |form, changes: &[(C, &'static str)], expect: &str| {
        let row = row(form, changes);
        let tags = ["project".to_owned()];
        match read(&row, form, &tags).expect_err(expect) {
            RowProblem::Column((column, why)) => assert_eq!(format!("{column}: {why}"), expect),
            RowProblem::Currency(code) => assert_eq!(code, expect),
        }
    };
    let cur = ExportForm::Cur2;
    check(cur, &[(C::Currency, "CNY")], "CNY");
    check(
        cur,
        &[(C::Start, "October")],
        "line_item_usage_start_date: 'October' is not a time such as 2026-10-01T00:00:00Z",
    );
    check(
        cur,
        &[(C::Start, "")],
        "line_item_usage_start_date: is missing",
    );
    check(
        cur,
        &[(C::Type, "")],
        "line_item_line_item_type: is missing",
    );
    check(
        cur,
        &[(C::Cost, "1e30")],
        "line_item_unblended_cost: '1e30' is not an amount below 1000000000",
    );
    check(
        cur,
        &[(C::Type, "DiscountedUsage")],
        "reservation_effective_cost: is missing",
    );
    let focus = ExportForm::Focus;
    check(focus, &[(C::Cost, "")], "EffectiveCost: is missing");
    check(
        focus,
        &[(C::Cost, "<b>")],
        "EffectiveCost: '<b>' is not an amount below 1000000000",
    );
}

#[test]
fn tags_are_found_by_the_names_of_each_form() {
    let check = |text: &'static str, expect: &str| {
        let row = row(ExportForm::Focus, &[(C::Tags, text)]);
        let tags = ["Cost-Center".to_owned()];
        let charge = read(&row, ExportForm::Focus, &tags).expect("a charge");
        assert_eq!(charge.tags, [expect], "{text}");
    };
    check(r#"{"Cost-Center":"tides"}"#, "tides");
    check(r#"{"user:Cost-Center":"tides","x":null}"#, "tides");
    check(r#"{"user_cost_center":7}"#, "7");
    check(r#"{"aws_cost_center":"tides"}"#, "");
    check("{}", "");
    check("", "");
    check(r#"{"user_costcenter":"tides","user_cost_center":"x"}"#, "x");
    check(r#"{"user_CostCenter":"x","Cost-Center":"tides"}"#, "tides");
    check(
        r#"{"user_CostCenter":"x","user:Cost-Center":"tides"}"#,
        "tides",
    );
    check(r#"{"user:COST CENTER":"tides"}"#, "tides");
    check(r#"{"user_cost_center_2":"tides"}"#, "");
}

#[test]
fn a_row_with_tags_that_cannot_be_read_counts_without_them() {
    let check = |text: &'static str, expect: Option<&str>| {
        let row = row(ExportForm::Focus, &[(C::Tags, text)]);
        let tags = ["Cost-Center".to_owned(), "team".to_owned()];
        let charge = read(&row, ExportForm::Focus, &tags).expect("a charge");
        assert_eq!(Some(charge.amount), Amount::parse("0.096"));
        assert_eq!(charge.tags, ["", ""]);
        let why = charge
            .bad_tags
            .map(|(column, why)| format!("{column}: {why}"));
        assert_eq!(why.as_deref(), expect);
        let charge = read(&row, ExportForm::Focus, &[]).expect("a charge");
        assert_eq!((charge.tags.len(), charge.bad_tags), (0, None));
    };
    check("{}", None);
    check("", None);
    check("null", None);
    check(
        "Cost-Center=tides",
        Some("Tags: 'Cost-Center=tides' is not a map of keys and values"),
    );
    check("[1]", Some("Tags: '[1]' is not a map of keys and values"));
}
