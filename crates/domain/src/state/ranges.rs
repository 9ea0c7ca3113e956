//! Sorted ranges that neither touch nor overlap.

use std::ops::Range;

/// Puts `new` in the place of the ranges at `touched`, which touch or overlap it,
/// as one with them; there is no room to spare, because millions of these are held.
pub(super) fn put<T: Copy + Ord>(ranges: &mut Vec<(T, T)>, touched: Range<usize>, new: (T, T)) {
    let Range { start, end } = touched;
    match ranges.get_mut(start..end) {
        Some([one, rest @ ..]) => {
            let last = rest.last().map_or(one.1, |range| range.1);
            *one = (one.0.min(new.0), last.max(new.1));
            ranges.drain(start + 1..end);
        }
        _ => {
            ranges.reserve_exact(1);
            ranges.insert(start, new);
        }
    }
}
