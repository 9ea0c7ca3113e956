//! Tables that fit the width of a terminal: names become shorter, then columns are left out.

use ebb_telemetry::safe_text::wrap;

use crate::plain_table;
use crate::step_table::end_of;

/// Maximum width of a name on a terminal.
const MAX_NAME: usize = 60;

/// The cell of an unknown value.
pub(crate) const UNKNOWN: &str = "?";

/// Spaces between two columns.
const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    head: &'static str,
    is_right: bool,
    /// Minimum width of a name, which is cut at its start; `None` for other values.
    min_name: Option<usize>,
    /// A column with a greater number is left out first; 0 for a column that is always shown.
    rank: u8,
}

impl Column {
    /// A column of values.
    pub(crate) const fn new(head: &'static str) -> Self {
        Self {
            head,
            is_right: false,
            min_name: None,
            rank: 0,
        }
    }

    /// A column of names.
    pub(crate) const fn name(head: &'static str, min: usize) -> Self {
        Self {
            min_name: Some(min),
            ..Self::new(head)
        }
    }

    /// The same column, aligned to the right.
    pub(crate) const fn right(self) -> Self {
        Self {
            is_right: true,
            ..self
        }
    }

    /// The same column, which may be left out.
    pub(crate) const fn optional(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The width on a wide terminal.
    fn natural(&self, cells: impl Iterator<Item = usize>, terminal: Option<usize>) -> usize {
        let widest = cells.max().unwrap_or(0);
        let widest = match self.min_name.and(terminal) {
            Some(_) => widest.min(MAX_NAME),
            None => widest,
        };
        widest.max(self.head.chars().count())
    }

    fn min(&self, natural: usize) -> usize {
        let of_name = self.min_name.map(|min| min.max(self.head.chars().count()));
        of_name.map_or(natural, |min| min.min(natural))
    }
}

/// A table with its notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FittedTable {
    /// The lines of the table, each with its end.
    pub(crate) lines: String,
    /// A sentence about the columns that did not fit; empty if all did.
    pub(crate) left_out: String,
}

/// The notes below a table, as lines for the terminal.
pub(crate) fn notes(sentences: &[&str], terminal: Option<usize>) -> String {
    const PIPE: usize = 120;
    let sentences: Vec<&str> = sentences
        .iter()
        .copied()
        .filter(|one| !one.is_empty())
        .collect();
    let lines = wrap(&sentences.join(" "), terminal.unwrap_or(PIPE));
    format!("\n{}\n", lines.join("\n"))
}

/// A table that fits the terminal, as far as possible; `terminal` is the number
/// of columns of the terminal. Optional names of which none is known are left out silently.
pub(crate) fn table<const N: usize>(
    columns: &[Column; N],
    rows: &[[String; N]],
    terminal: Option<usize>,
) -> FittedTable {
    let is_known = |n: &usize| {
        let column = &columns[*n];
        let may_be_silent = column.rank > 0 && column.min_name.is_some() && !rows.is_empty();
        !may_be_silent || rows.iter().any(|row| row[*n] != UNKNOWN)
    };
    let mut shown: Vec<usize> = (0..N).filter(is_known).collect();
    let natural: Vec<usize> = (0..N)
        .map(|n| {
            let cells = rows.iter().map(|row| row[n].chars().count());
            columns[n].natural(cells, terminal)
        })
        .collect();
    let mut left_out = Vec::new();
    let widths = loop {
        match fit(columns, &natural, &shown, terminal) {
            Some(widths) => break widths,
            None => {
                let last = shown.iter().copied().filter(|n| columns[*n].rank > 0);
                let Some(last) = last.max_by_key(|n| columns[*n].rank) else {
                    // Nothing else can be left out, so the lines are too long.
                    break minimum(columns, &natural);
                };
                shown.retain(|n| *n != last);
                left_out.push(last);
            }
        }
    };
    let head: Vec<&str> = shown.iter().map(|n| columns[*n].head).collect();
    let right: Vec<usize> = (0..shown.len())
        .filter(|at| columns[shown[*at]].is_right)
        .collect();
    let cells = rows.iter().map(|row| {
        let cell = |n: &usize| match columns[*n].min_name {
            Some(_) => end_of(&row[*n], widths[*n]),
            None => row[*n].clone(),
        };
        shown.iter().map(cell).collect::<Vec<String>>()
    });
    let lines = plain_table::lines(&head, cells, &right).join("\n") + "\n";
    left_out.sort_unstable();
    let left_out: Vec<&str> = left_out.into_iter().map(|n| columns[n].head).collect();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!(
            "Left out, because the terminal is narrow: {}.",
            left_out.join(", ")
        ),
    };
    FittedTable { lines, left_out }
}

fn minimum<const N: usize>(columns: &[Column; N], natural: &[usize]) -> Vec<usize> {
    let all = columns.iter().zip(natural);
    all.map(|(column, natural)| column.min(*natural)).collect()
}

/// The widths of all columns with which those that are shown fit; `None` if they do not.
fn fit<const N: usize>(
    columns: &[Column; N],
    natural: &[usize],
    shown: &[usize],
    terminal: Option<usize>,
) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let Some(terminal) = terminal else {
        return Some(widths);
    };
    let total = |widths: &[usize]| {
        let cells: usize = shown.iter().map(|n| widths[*n]).sum();
        cells + GAP * shown.len().saturating_sub(1)
    };
    while total(&widths) > terminal {
        let wide = shown.iter().copied().filter(|n| {
            let min = columns[*n].min(natural[*n]);
            widths[*n] > min
        });
        let widest = wide.max_by_key(|n| widths[*n])?;
        widths[widest] -= 1;
    }
    Some(widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::name("NAME", 6),
        Column::name("PLACE", 6).optional(2),
        Column::new("COUNT").right(),
        Column::new("NOTE").optional(1),
    ];

    fn row(name: &str, place: &str) -> [String; 4] {
        [name, place, "17", "a note"].map(str::to_owned)
    }

    #[test]
    fn names_become_shorter_and_then_columns_are_left_out() {
        let check = |terminal: Option<usize>, expect: &str| {
            let rows = [row("nf-core:rnaseq:ALIGN", "i-0123456789")];
            let FittedTable { lines, left_out } = table(&COLUMNS, &rows, terminal);
            assert_eq!(format!("{lines}{left_out}"), expect, "{terminal:?}");
        };
        let whole = "NAME                  PLACE         COUNT  NOTE\n\
                     nf-core:rnaseq:ALIGN  i-0123456789     17  a note\n";
        check(None, whole);
        check(Some(49), whole);
        check(
            Some(40),
            "NAME          PLACE        COUNT  NOTE\n\
             …naseq:ALIGN  …0123456789     17  a note\n",
        );
        check(
            Some(20),
            "NAME           COUNT\n\
             …rnaseq:ALIGN     17\n\
             Left out, because the terminal is narrow: PLACE, NOTE.",
        );
        check(
            Some(1),
            "NAME    COUNT\n\
             …ALIGN     17\n\
             Left out, because the terminal is narrow: PLACE, NOTE.",
        );
    }

    #[test]
    fn optional_names_without_a_known_one_are_left_out() {
        let rows = [row("a", UNKNOWN), row(UNKNOWN, UNKNOWN)];
        let text = table(&COLUMNS, &rows, None).lines;
        assert!(text.starts_with("NAME  COUNT  NOTE\n"), "{text}");
        let text = table(&COLUMNS, &[], None).lines;
        assert_eq!(text, "NAME  PLACE  COUNT  NOTE\n");
    }
}
