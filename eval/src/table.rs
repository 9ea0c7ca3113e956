//! Aligned columns: the first to the left, all others to the right.

/// Lines up `rows` under `head`.
pub(crate) fn lines(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(i))
            .map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(head[i].chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            match i {
                0 => text.push_str(&format!("{cell:<0$}", widths[0])),
                _ => text.push_str(&format!("  {cell:>0$}", widths[i])),
            }
        }
        text.trim_end().to_owned() + "\n"
    };
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    std::iter::once(line(&head))
        .chain(rows.iter().map(|row| line(row)))
        .collect()
}
