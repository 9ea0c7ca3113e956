//! In whose account the resource of a finding is.

use super::Facts;
use crate::finding::Resource;
use crate::fleet::JobId;
use crate::identity::{AccountId, NodeId};

/// By its machine, by what its region told of it, or by an ARN; `None` where none tells.
/// Rules say it themselves of what has but a name, which two accounts may both have given.
pub(super) fn account(facts: &Facts<'_>, resource: &Resource) -> Option<AccountId> {
    let inventory = facts.inventory;
    let machine = |id: &str| {
        let node = NodeId::new(id).ok()?;
        inventory.instances.get(&node)?.account.clone()
    };
    let job = || {
        let id = JobId::new(&resource.id).ok()?;
        inventory.batch.jobs.get(&id)?.account()
    };
    machine(resource.node.as_deref().unwrap_or(&resource.id))
        .or_else(|| inventory.storage.account_of(&resource.id).cloned())
        .or_else(job)
        .or_else(|| AccountId::of_arn(&resource.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::JobStatus;
    use crate::rules::testing::{World, asked, instance, region, volume};

    #[test]
    fn a_finding_says_in_whose_account_its_resource_is_where_that_is_told() {
        let mut machine = instance(1);
        let of = |n: u8| AccountId::new(format!("{n:012}")).expect("an account");
        machine.account = Some(of(1));
        let id = machine.id.to_string();
        let mut world = World::with([machine]).with_job(JobStatus::Runnable, asked(1, 1));
        world.job().queue = "arn:aws:batch:us-east-1:000000000002:job-queue/q".to_owned();
        let mut lost = volume(400, "gp3", 100);
        lost.account = Some(of(3));
        world
            .inventory
            .storage
            .volumes
            .insert(lost.id.clone(), lost);
        let check = |id: &str, node: Option<&str>, expect: Option<u8>| {
            let resource = Resource {
                node: node.map(str::to_owned),
                ..Resource::named(id.to_owned(), "x", &region())
            };
            let got = account(&world.facts(), &resource);
            assert_eq!(got, expect.map(of), "{id}");
        };
        check(&id, None, Some(1));
        check("a step", Some(&id), Some(1));
        check("job-1", None, Some(2));
        check("vol-1", None, Some(3));
        let family = "arn:aws:ecs:us-east-1:000000000004:cluster/c/web";
        check(family, None, Some(4));
        check("arn:aws:s3:::bucket", None, None);
    }
}
