//! Finds rows that a file has more than once, such as a delivery that was appended to itself. Their
//! costs would count twice.
//!
//! Equal rows are not always copies: an export without the columns that differ has them too. So rows
//! are compared by the id of their line item, or as a whole if they are the usage of a resource.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::amount::Amount;
use super::charge::{Charge, ExportRow};
use super::columns::ExportForm;

/// The most rows of a file that later ones are compared with, at about 20 bytes each.
const MAX_KNOWN: usize = 2_000_000;

/// Of so many compared rows, one repeated row is a part of a copied delivery.
const COPY_SHARE: u64 = 10;

/// The rows of one file.
#[derive(Debug, Default)]
pub(super) struct RepeatedRows {
    known: HashSet<u64>,
    compared: u64,
    repeated: u64,
    /// The number of the first repeated row in the file.
    first: Option<u64>,
}

impl RepeatedRows {
    /// Compares a row with the rows before it.
    pub(super) fn add(
        &mut self,
        (row, form): (&impl ExportRow, ExportForm),
        charge: &Charge<'_>,
        number: u64,
    ) {
        let hash = match (charge.line_item, form) {
            (Some(id), _) => Some(hash_of_line((id, charge))),
            (None, ExportForm::Focus) if charge.is_usage_of_resource => row.hash_of_all(),
            (None, _) => None,
        };
        let Some(hash) = hash.filter(|_| charge.amount != Amount::ZERO) else {
            return;
        };
        self.compared += 1;
        if self.known.contains(&hash) {
            self.repeated += 1;
            self.first = self.first.or(Some(number));
        } else if self.known.len() < MAX_KNOWN {
            self.known.insert(hash);
        }
    }

    /// Whether so many rows are repeated that a delivery is in the file twice.
    pub(super) fn is_copy(&self) -> bool {
        self.repeated > 0 && self.repeated * COPY_SHARE >= self.compared
    }

    /// The number of repeated rows and the first one, for a message; `None` without such a row.
    pub(super) fn words(&self, file: &str) -> Option<String> {
        let first = self.first?;
        Some(format!(
            "{} of {} compared rows repeat an earlier row of the file; the first is {file}:{first}",
            self.repeated, self.compared
        ))
    }
}

/// AWS promises that an id is unique in a part of a delivery only, so the charge decides too.
fn hash_of_line((id, charge): ((&str, &str), &Charge<'_>)) -> u64 {
    let mut hasher = DefaultHasher::new();
    (id, charge.start, charge.end, &charge.service, &charge.node).hash(&mut hasher);
    (charge.account, charge.usage, charge.amount, &charge.tags).hash(&mut hasher);
    hasher.finish()
}
