//! Lists of pages as CSV.

use axum::response::{IntoResponse, Response};
use ebb_report::csv::text;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use crate::answer::MAX_BODY_BYTES;
use crate::problem::Problem;

/// Whether the address asks for CSV.
///
/// # Errors
/// If it asks for a form that does not exist.
pub(crate) fn is_wanted(format: Option<&String>) -> Result<bool, Problem> {
    match format.map(String::as_str) {
        None => Ok(false),
        Some("csv") => Ok(true),
        Some(_) => Err(Problem::Query("format is csv.".to_owned())),
    }
}

/// A table as a file to download. The cells are text; `None` is an empty cell.
pub(crate) fn table<const N: usize>(
    columns: [&str; N],
    rows: impl Iterator<Item = [Option<String>; N]>,
) -> Result<Response, Problem> {
    let mut out = columns.join(",");
    out.push_str("\r\n");
    for row in rows {
        let cells = row.map(|one| one.map_or_else(String::new, cell));
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    file(out)
}

/// Text that could be a formula is quoted. A negative number is none.
fn cell(value: String) -> String {
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => value,
        _ => text(&value),
    }
}

/// Text of CSV as a file to download.
pub(crate) fn file(text: String) -> Result<Response, Problem> {
    if text.len() > MAX_BODY_BYTES {
        return Err(Problem::Query(
            "the table is too large; add filters.".to_owned(),
        ));
    }
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"ebb.csv\""),
    ];
    Ok((headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_and_a_formula_is_text() {
        let check = |value: &str, expect: &str| assert_eq!(cell(value.to_owned()), expect);
        check("-180", "-180");
        check("0.001", "0.001");
        check("-inf", "'-inf");
        check("-1+cmd()", "'-1+cmd()");
        check("=1", "'=1");
        check("a,b", "\"a,b\"");
    }
}
