//! Ids of resources as users write them in the policy: whole, or with a `*` at the end.

/// Whether `id` is meant. A `*` at the end matches any text.
pub(crate) fn means(written: &str, id: &str) -> bool {
    match written.strip_suffix('*') {
        Some(begin) => id.starts_with(begin),
        None => id == written,
    }
}

/// Whether a `*` is not at the end.
pub(crate) fn has_inner_star(written: &str) -> bool {
    let begin = written.strip_suffix('*').unwrap_or(written);
    begin.contains('*')
}
