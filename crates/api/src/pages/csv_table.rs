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
        let cells = row.map(|cell| cell.map_or_else(String::new, |cell| text(&cell)));
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    file(out)
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
