//! Related Batch jobs: children of one array, and jobs with dependencies between them.

use std::collections::BTreeMap;

use ebb_model::inventory::batch::job::{Job, JobId};
use ebb_model::report::workflow_runs::JoinedBy;

/// Jobs by family; the smallest id identifies a family.
pub(crate) struct Families<'a> {
    parents: BTreeMap<&'a str, &'a str>,
}

/// The array of a child, otherwise the job itself. AWS Batch uses the form `UUID:index`.
fn array(id: &JobId) -> &str {
    let id = id.as_str();
    id.split_once(':').map_or(id, |(parent, _)| parent)
}

impl<'a> Families<'a> {
    pub(crate) fn from_jobs(jobs: impl Iterator<Item = &'a Job>) -> Self {
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

    /// Shortens the path on the way to the root, so that a long chain is walked only once.
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

    /// Kind of relation between a job and its family, and the id of the family.
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
