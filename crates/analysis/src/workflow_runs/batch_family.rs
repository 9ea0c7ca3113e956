//! Batch jobs that belong together: children of one array, and jobs that wait for each
//! other.

use std::collections::BTreeMap;

use ebb_model::inventory::batch::job::{Job, JobId};
use ebb_model::report::workflow_runs::JoinedBy;

/// Jobs by their family, which goes by the least of its ids.
pub(crate) struct Families<'a> {
    parents: BTreeMap<&'a str, &'a str>,
}

/// The array that a child is of, else the job itself: `UUID:index` is AWS Batch's form.
fn array(id: &JobId) -> &str {
    let id = id.as_str();
    id.split_once(':').map_or(id, |(parent, _)| parent)
}

impl<'a> Families<'a> {
    pub(crate) fn of(jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut families = Self {
            parents: BTreeMap::new(),
        };
        for job in jobs {
            for before in &job.depends_on {
                families.join(array(&job.id), array(before));
            }
        }
        families
    }

    fn join(&mut self, a: &'a str, b: &'a str) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents.insert(a.max(b), a.min(b));
        self.parents.insert(a.min(b), a.min(b));
    }

    /// Shortens the way as it goes, so that a long chain is walked once.
    fn root(&mut self, of: &'a str) -> &'a str {
        let mut root = of;
        while let Some(next) = self.parents.get(root).filter(|next| **next != root) {
            root = next;
        }
        let mut at = of;
        while at != root {
            let next = self.parents.insert(at, root);
            at = next.unwrap_or(root);
        }
        root
    }

    /// What joins a job to others, and the id that they go by.
    pub(crate) fn run(&self, id: &JobId) -> Option<(JoinedBy, String)> {
        let own = array(id);
        let mut root = own;
        while let Some(next) = self.parents.get(root).filter(|next| **next != root) {
            root = next;
        }
        let by = match self.parents.contains_key(own) {
            true => JoinedBy::Dependency,
            false if own != id.as_str() => JoinedBy::Array,
            false => return None,
        };
        Some((by, root.to_owned()))
    }
}
