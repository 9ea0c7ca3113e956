//! Widths of the table's columns, and the line of one finding in them.

use super::INDENT;
use crate::render::text::clip;
use crate::render::view::Card;

/// The least that a name is cut to.
const NARROWEST_NAME: usize = 12;

/// The most that an owner takes of a terminal's line.
const WIDEST_OWNER: usize = 16;

/// Widths of the columns before the region, which is the last.
pub(super) struct Columns {
    saving: usize,
    spent: usize,
    resource: usize,
    owner: usize,
}

impl Columns {
    /// As wide as their values, and on a terminal no wider than it.
    pub(super) fn of(cards: &[Card], terminal: Option<usize>) -> Self {
        let widest = |least: usize, text: &dyn Fn(&Card) -> usize| {
            cards.iter().map(text).max().unwrap_or(0).max(least)
        };
        let money = |of: &dyn Fn(&Card) -> Option<usize>| widest(7, &|c| of(c).unwrap_or(0));
        let saving = money(&|c| Some(chars(&c.cost.as_ref()?.saving))).max(INDENT - 2);
        let spent = money(&|c| Some(chars(&c.cost.as_ref()?.spent)));
        let region = widest(6, &|c| chars(&c.region));
        let owner = widest(5, &|c| c.owner.as_deref().map_or(1, chars));
        let resource = widest(8, &|c| chars(&c.resource()));
        let Some(terminal) = terminal else {
            return Self {
                saving,
                spent,
                resource,
                owner,
            };
        };
        let owner = owner.min(WIDEST_OWNER);
        let rest = terminal.saturating_sub(saving + spent + owner + region + 8);
        let rest = rest.max(NARROWEST_NAME);
        let shown = |c: &Card| match chars(&c.resource()) {
            whole if whole <= rest => whole,
            _ => chars(&c.title).min(rest),
        };
        Self {
            saving,
            spent,
            resource: widest(8, &shown),
            owner,
        }
    }

    /// The line above all findings.
    pub(super) fn head(&self) -> String {
        self.line(["SAVING/MONTH", "WASTED", "RESOURCE", "OWNER", "REGION"])
    }

    /// The line of one finding. An id that does not fit is given back, for half an
    /// id is none.
    pub(super) fn row<'a>(&self, card: &'a Card) -> (String, Option<&'a str>) {
        let cost = card.cost.as_ref();
        let whole = card.resource();
        let fits = chars(&whole) <= self.resource;
        let resource = match fits {
            true => whole.into(),
            false => clip(&card.title, self.resource),
        };
        let line = self.line([
            cost.map_or("unknown", |c| &c.saving),
            cost.map_or("unknown", |c| &c.spent),
            &resource,
            &clip(card.owner.as_deref().unwrap_or("-"), self.owner),
            &card.region,
        ]);
        (line, card.id.as_deref().filter(|_| !fits))
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
