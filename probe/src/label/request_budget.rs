//! The number of label requests that are answered between two scans.

use std::collections::BTreeMap;

/// Maximum number of label requests between two scans, so that frequent requests do not raise the
/// cost of the probe. Schedulers send labels as root, whose requests are counted apart.
const MAX_IN_ALL: u32 = 200;

/// The same for one user, so that nobody uses up the requests of the others.
const MAX_OF_USER: u32 = 50;

const ROOT: u32 = 0;

/// The label requests since the last scan, by user.
#[derive(Debug, Default)]
pub(crate) struct RequestBudget {
    answered: BTreeMap<u32, u32>,
}

impl RequestBudget {
    /// Counts a request; false if it has to be refused.
    pub(crate) fn take(&mut self, user: u32) -> bool {
        let of = |is_counted: &dyn Fn(u32) -> bool| -> u32 {
            let counted = self.answered.iter().filter(|(user, _)| is_counted(**user));
            counted.map(|(_, count)| count).sum()
        };
        let own = of(&|other| other == user);
        let has_room = match user {
            ROOT => own < MAX_IN_ALL,
            _ => own < MAX_OF_USER && of(&|other| other != ROOT) < MAX_IN_ALL,
        };
        if has_room {
            *self.answered.entry(user).or_default() += 1;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_many_requests_leaves_those_of_others_and_of_root() {
        let mut budget = RequestBudget::default();
        let mut taken = |user: u32| (0..1_000).filter(|_| budget.take(user)).count();
        let got = [1_000, 1_001, 1_002, 1_003, 1_004, ROOT].map(&mut taken);
        assert_eq!(got, [50, 50, 50, 50, 0, 200]);
    }
}
