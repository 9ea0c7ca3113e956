//! Units of amounts of data, as bills write them.

/// Whether a unit counts bytes, such as `GB` or `1 GiB`. `GB-Hours` counts memory or storage over time.
pub(crate) fn is_amount_of_data(unit: &str) -> bool {
    let unit = unit.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let unit = unit.to_ascii_lowercase();
    let unit = unit.trim_end_matches('s');
    ["b", "by", "byte"].iter().any(|byte| {
        unit.strip_suffix(byte).is_some_and(|prefix| {
            ["", "k", "m", "g", "t", "p", "ki", "mi", "gi", "ti", "pi"].contains(&prefix)
                || [
                    "kilo", "mega", "giga", "tera", "peta", "kibi", "mebi", "gibi", "tebi", "pebi",
                ]
                .contains(&prefix)
        })
    })
}
