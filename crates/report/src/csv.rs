//! The findings as CSV (RFC 4180), one row each. Amounts are plain decimals, so that a spreadsheet
//! can add them.

use ebb_model::cost::Cost;
use ebb_model::finding::{Finding, Recommendation};
use ebb_model::report::Report;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::one_line;
use serde::Serialize;

const COLUMNS: [&str; 38] = [
    "id",
    "kind",
    "resource",
    "name",
    "node",
    "region",
    "owner",
    "instance_type",
    "market",
    "controller",
    "origin",
    "from",
    "to",
    "coverage",
    "evidence",
    "confidence",
    "confidence_reason",
    "saving_a_month_usd",
    "spent_usd",
    "per_hour_usd",
    "list_per_hour_usd",
    "price_basis",
    "action",
    "advice",
    "command",
    "recommended_cores",
    "recommended_memory_bytes",
    "recommended_instance_type",
    "recommended_region",
    "recommended_share_per_hour_usd",
    "account",
    "first_seen",
    "stage",
    "steps",
    "is_upper_bound",
    "counted_saving_a_month_usd",
    "rest_counted_by",
    "price_as_of",
];

/// A header line and one line for each finding, each with CR LF at the end.
pub fn csv(report: &Report) -> String {
    let mut out = COLUMNS.join(",");
    out.push_str("\r\n");
    for finding in &report.findings {
        out.push_str(&cells(finding, report).join(","));
        out.push_str("\r\n");
    }
    out
}

fn cells(finding: &Finding, report: &Report) -> Vec<String> {
    let mut cells = row(finding);
    cells.extend(history(finding, report));
    cells.extend(counted(finding.cost.as_ref()));
    cells
}

fn row(finding: &Finding) -> Vec<String> {
    let resource = &finding.resource;
    let mut cells = vec![
        text(&finding.id),
        text(finding.kind.slug()),
        text(&resource.id),
        maybe(resource.name.as_deref()),
        maybe(resource.node.as_deref()),
        text(resource.region.as_str()),
        maybe(resource.owner.as_deref()),
        maybe(resource.instance_type.as_ref().map(|t| t.as_str())),
        maybe(resource.market.as_ref().map(slug).as_deref()),
        maybe(
            resource
                .controller
                .as_ref()
                .map(ToString::to_string)
                .as_deref(),
        ),
        text(&slug(&resource.origin)),
        finding.window.from.to_string(),
        finding.window.to.to_string(),
        finding
            .coverage
            .map_or_else(String::new, |share| format!("{:.4}", share.as_f64())),
        text(&finding.evidence.to_string()),
        text(&slug(&finding.confidence.level)),
        text(&finding.confidence.reason),
    ];
    cells.extend(money(finding.cost.as_ref()));
    cells.extend([
        text(&finding.remedy.action.to_string()),
        text(&finding.remedy.advice),
        maybe(finding.remedy.command.as_deref()),
    ]);
    cells.extend(recommended(finding.recommendation.as_ref()));
    cells
}

/// Account, first observation, stage and tasks of a finding.
fn history(finding: &Finding, report: &Report) -> [String; 4] {
    let standing = report.history.life.get(&finding.id);
    let steps: Vec<&str> = finding.steps.iter().map(|it| it.id.key.as_str()).collect();
    [
        maybe(finding.resource.account.as_ref().map(|id| id.as_str())),
        standing.map_or_else(String::new, |one| one.first_seen.to_string()),
        standing.map_or_else(String::new, |one| slug(&one.stage)),
        text(&steps.join(" ")),
    ]
}

fn money(cost: Option<&Cost>) -> [String; 5] {
    let Some(cost) = cost else {
        return Default::default();
    };
    [
        decimal(cost.saving_a_month),
        decimal(cost.spent),
        decimal(cost.per_hour.0),
        cost.list_per_hour
            .map_or_else(String::new, |list| decimal(list.0)),
        slug(&cost.basis),
    ]
}

/// Part of the cost that the totals contain, so that the sum of this column equals the totals, and
/// the date of the price.
fn counted(cost: Option<&Cost>) -> [String; 4] {
    let Some(cost) = cost else {
        return Default::default();
    };
    let by = cost.counted.as_ref();
    [
        cost.basis.is_bound().to_string(),
        decimal(cost.in_totals().saving_a_month),
        maybe(by.and_then(|counted| counted.rest_counted_by.as_deref())),
        cost.price_as_of
            .map_or_else(String::new, |at| at.to_string()),
    ]
}

fn recommended(recommendation: Option<&Recommendation>) -> [String; 5] {
    let Some(it) = recommendation else {
        return Default::default();
    };
    let request = it.recommended;
    let placement = it.placement.as_ref();
    [
        request
            .cores
            .map_or_else(String::new, |cores| cores.as_cores().to_string()),
        request
            .memory
            .map_or_else(String::new, |memory| memory.0.to_string()),
        maybe(placement.map(|p| p.instance_type.as_str())),
        maybe(placement.map(|p| p.region.as_str())),
        it.recommended_per_hour
            .map_or_else(String::new, |price| decimal(price.0)),
    ]
}

/// Name of a value in JSON.
pub fn slug<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}

pub(crate) fn decimal(amount: Usd) -> String {
    amount.to_rounded(6)
}

pub(crate) fn maybe(cell: Option<&str>) -> String {
    cell.map_or_else(String::new, text)
}

/// External text on one line, quoted if necessary. A cell that a spreadsheet would run as a formula
/// starts with an apostrophe instead.
///
/// Source: OWASP, "CSV Injection": cells that start with `=`, `+`, `-` or `@`.
pub fn text(cell: &str) -> String {
    let mut line = one_line(cell);
    if line.trim_start().starts_with(['=', '+', '-', '@']) {
        line.insert(0, '\'');
    }
    if line.contains([',', '"']) || line.starts_with(' ') || line.ends_with(' ') {
        return format!("\"{}\"", line.replace('"', "\"\""));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_cell_is_quoted_where_needed_and_never_a_formula() {
        let check = |cell: &str, expect: &str| assert_eq!(text(cell), expect);
        check("plain", "plain");
        check("a,b", "\"a,b\"");
        check("say \"hi\"", "\"say \"\"hi\"\"\"");
        check("=cmd()", "'=cmd()");
        check("\t=cmd()", "' =cmd()");
        check("+1", "'+1");
        check("-1", "'-1");
        check("@SUM(A1)", "'@SUM(A1)");
        check("two\r\nlines", "two  lines");
    }

    #[test]
    fn every_finding_is_one_row_with_every_column() {
        for (report, findings) in [
            (testing::empty(), 0),
            (testing::small(), 3),
            (testing::hostile(), 1),
            (testing::many(1_000), 1_000),
        ] {
            let text = csv(&report);
            assert_eq!(text.matches("\r\n").count(), findings + 1);
            assert_eq!(text.matches('\n').count(), findings + 1);
        }
        let small = testing::small();
        let line = cells(&small.findings[0], &small);
        assert_eq!(line.len(), COLUMNS.len());
    }

    #[test]
    fn rows_are_stable() {
        insta::assert_snapshot!(csv(&testing::small()).replace("\r\n", "\n"), @r#"
        id,kind,resource,name,node,region,owner,instance_type,market,controller,origin,from,to,coverage,evidence,confidence,confidence_reason,saving_a_month_usd,spent_usd,per_hour_usd,list_per_hour_usd,price_basis,action,advice,command,recommended_cores,recommended_memory_bytes,recommended_instance_type,recommended_region,recommended_share_per_hour_usd,account,first_seen,stage,steps,is_upper_bound,counted_saving_a_month_usd,rest_counted_by,price_as_of
        idle_node/eu-central-1/i-0aaa,idle_node,i-0aaa,gpu-notebook,,eu-central-1,ana,g5.2xlarge,on_demand,,simulated,2026-03-04T08:55:00Z,2026-03-04T12:00:00Z,0.9900,no activity for 3 h 05 min; background processes use 0.02 cores; task session of ana exists without activity,high,seen by the probe,884.760000,3.737000,1.212000,1.212000,bill,Stop,Stop it; its volumes stay.,aws ec2 stop-instances --region eu-central-1 --instance-ids i-0aaa,,,,,,,,,,false,884.760000,,2026-02-27T00:00:00Z
        overprovisioned_step/eu-central-1/variant-call,overprovisioned_step,variant-call,,,eu-central-1,ana,,,,simulated,2026-03-04T08:55:00Z,2026-03-04T12:00:00Z,0.9900,"requested 16 vCPU and 64.0 GiB, used at most 2.1 cores and 3.9 GiB (1 task, total run time 60 min)",high,seen by the probe,280.320000,1.184000,0.384000,0.384000,list_price_as_upper_bound,Rightsize,Look at what it waits for.,,3,5100273664,c6i.xlarge,eu-central-1,0.096000,,,,,true,280.320000,,2026-02-27T00:00:00Z
        stuck_batch_job/eu-central-1/job-17,stuck_batch_job,job-17,align-sample-17,i-0bbb,eu-central-1,,,,,measured,2026-03-04T08:55:00Z,2026-03-04T12:00:00Z,,"RUNNING without CPU usage, I/O or a new process for 42 min; since its start, 3 processes used 1.25 s of CPU",high,seen by the probe,,,,,,Investigate,Look at what it waits for.,,,,,,,,,,1f0e,,,,
        "#);
    }
}
