//! Tables without borders. A column is as wide as a terminal shows its widest cell.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// One line for the header and one for each row, without spaces at the end. `right` lists the
/// columns that are aligned to the right, from 0. A cell must not contain a line break.
pub fn lines<Row: IntoIterator<Item = String>>(
    header: &[&str],
    rows: impl IntoIterator<Item = Row>,
    right: &[usize],
) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&n) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}
