//! Column widths of the table, and the line of one row.

use ebb_telemetry::safe_text::clip;

use crate::page::alike::Alike;

/// Indent of evidence and advice, so that only amounts are on the left.
pub(crate) const INDENT: usize = 14;

/// Minimum width of a name.
const NARROWEST_NAME: usize = 12;

/// Maximum width of an owner on a terminal.
const WIDEST_OWNER: usize = 16;

/// Widths of the columns before the region, which is the last.
pub(crate) struct Columns {
    saving: usize,
    spent: usize,
    resource: usize,
    owner: usize,
    is_of_months: bool,
}

/// Amounts of a row.
struct Money {
    saving: String,
    spent: String,
}

impl Money {
    fn from_row(row: &Alike<'_>) -> Self {
        let unknown = match row.first().is_waste {
            true => "unknown",
            false => "-",
        };
        let amount = |usd: Option<String>| usd.map_or(unknown.to_owned(), |usd| short(&usd));
        let saving = row.saving().map(|usd| match row.is_short() {
            true => format!("{usd} {}", row.period()),
            false => usd,
        });
        Self {
            saving: amount(saving),
            spent: amount(row.spent()),
        }
    }
}

/// Shortens an amount for a column.
fn short(amount: &str) -> String {
    let amount = amount.trim_end_matches(" in the observed time");
    amount.replace("at most ", "≤ ").replace("at least ", "≥ ")
}

impl Columns {
    /// Column widths from their values, limited by the width of a terminal.
    pub(crate) fn from_rows(rows: &[Alike<'_>], terminal: Option<usize>) -> Self {
        let widest = |least: usize, width: &dyn Fn(&Alike<'_>) -> usize| {
            rows.iter().map(width).max().unwrap_or(0).max(least)
        };
        let saving = widest(7, &|row| chars(&Money::from_row(row).saving)).max(INDENT - 2);
        let spent = widest(7, &|row| chars(&Money::from_row(row).spent));
        let region = widest(6, &|row| chars(&row.first().region));
        let owner = widest(5, &|row| row.first().owner.as_deref().map_or(1, chars));
        let is_of_months = !rows.iter().all(Alike::is_short);
        let resource = widest(8, &|row| chars(&row.resource()));
        let Some(terminal) = terminal else {
            return Self {
                saving,
                spent,
                resource,
                owner,
                is_of_months,
            };
        };
        let owner = owner.min(WIDEST_OWNER);
        let rest = terminal.saturating_sub(saving + spent + owner + region + 8);
        let rest = rest.max(NARROWEST_NAME);
        let shown = |row: &Alike<'_>| match chars(&row.resource()) {
            whole if whole <= rest => whole,
            _ => chars(&row.first().title).min(rest),
        };
        Self {
            saving,
            spent,
            resource: widest(8, &shown),
            owner,
            is_of_months,
        }
    }

    /// The header line.
    pub(crate) fn head(&self) -> String {
        let saving = match self.is_of_months {
            true => "SAVING/MONTH",
            false => "SAVING",
        };
        self.line([saving, "WASTED", "RESOURCE", "OWNER", "REGION"])
    }

    /// The line of one finding or of several similar findings. An id that does not fit is returned
    /// separately, because a truncated id is useless.
    pub(crate) fn row<'a>(&self, row: &Alike<'a>) -> (String, Option<&'a str>) {
        let card = row.first();
        let whole = row.resource();
        let fits = chars(&whole) <= self.resource;
        let title = row.title().unwrap_or_else(|| card.title.clone());
        let resource = match fits {
            true => whole.into(),
            false => clip(&title, self.resource),
        };
        let money = Money::from_row(row);
        let line = self.line([
            &money.saving,
            &money.spent,
            &resource,
            &clip(card.owner.as_deref().unwrap_or("-"), self.owner),
            &card.region,
        ]);
        let id = card.id.as_deref().filter(|_| !fits && row.count() == 1);
        (line, id)
    }

    fn line(&self, [saving, spent, resource, owner, region]: [&str; 5]) -> String {
        format!(
            "{saving:>a$}  {spent:>b$}  {resource:<c$}  {owner:<d$}  {region}",
            a = self.saving,
            b = self.spent,
            c = self.resource,
            d = self.owner,
        )
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}
