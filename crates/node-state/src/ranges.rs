//! Sorted ranges that neither touch nor overlap. A node that is always observed has one range,
//! which needs no heap memory. A hundred thousand nodes have four such sets each.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Both ends of each range; the owner defines whether they are inclusive.
#[derive(Debug, Clone)]
pub(crate) enum Ranges<T> {
    One((T, T)),
    Many(Vec<(T, T)>),
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> Ranges<T> {
    pub(crate) fn as_slice(&self) -> &[(T, T)] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<T: Copy + Ord> Ranges<T> {
    /// Merges `new` with the ranges at `touched`, which touch or overlap it. The vector reserves no
    /// spare space, because there are many of these sets.
    pub(crate) fn put(&mut self, touched: Range<usize>, new: (T, T)) {
        let touching = self.as_slice().get(touched.clone()).unwrap_or_default();
        let new = match touching {
            [] => new,
            [first, ..] => {
                let last = touching.last().map_or(first.1, |range| range.1);
                (first.0.min(new.0), last.max(new.1))
            }
        };
        if self.as_slice().len() == touched.len() {
            *self = Self::One(new);
            return;
        }
        let mut many = std::mem::take(self).into_vec();
        let grows = 1_usize.saturating_sub(touched.len());
        many.reserve_exact(grows);
        many.splice(touched, [new]);
        *self = Self::from(many);
    }

    fn into_vec(self) -> Vec<(T, T)> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl<T: Copy> From<Vec<(T, T)>> for Ranges<T> {
    fn from(many: Vec<(T, T)>) -> Self {
        match many[..] {
            [one] => Self::One(one),
            _ => Self::Many(many),
        }
    }
}

impl<T: PartialEq> PartialEq for Ranges<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Eq> Eq for Ranges<T> {}

impl<T: Serialize> Serialize for Ranges<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(out)
    }
}

impl<'de, T: Copy + Deserialize<'de>> Deserialize<'de> for Ranges<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}
