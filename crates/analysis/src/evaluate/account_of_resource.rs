//! Account and tags of the resource of a finding.

use std::collections::BTreeMap;

use ebb_model::finding::Resource;
use ebb_model::inventory::batch::job::JobId;
use ebb_telemetry::identity::{AccountId, NodeId};

use crate::facts::Facts;

/// Finds the account by machine, storage, job or ARN; `None` if none of them has one. Rules set
/// the account themselves for resources with only a name, because two accounts may use the same
/// name.
pub(crate) fn account(facts: &Facts<'_>, resource: &Resource) -> Option<AccountId> {
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

/// Tags of a resource, of the job of its newest task and of its machine. For a duplicate key the
/// first of these sources wins.
pub(crate) fn tags(
    facts: &Facts<'_>,
    resource: &Resource,
    job: Option<&str>,
) -> BTreeMap<String, String> {
    let inventory = facts.inventory;
    let id = resource.id.as_str();
    let machine = |id: &str| Some(&inventory.instances.get(&NodeId::new(id).ok()?)?.tags);
    let job_of = |id: &str| Some(&inventory.batch.jobs.get(&JobId::new(id).ok()?)?.tags);
    let found = [
        machine(id),
        job_of(id),
        inventory.storage.tags_of(id),
        job.and_then(job_of),
        resource.node.as_deref().and_then(machine),
    ];
    let mut tags = BTreeMap::new();
    for (key, value) in found.into_iter().flatten().flatten() {
        if tags.len() < Resource::MAX_TAGS {
            tags.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance, region, requested, volume};
    use ebb_model::inventory::batch::job::JobStatus;

    #[test]
    fn a_finding_says_in_whose_account_its_resource_is_where_that_is_told() {
        let mut machine = instance(1);
        let of = |n: u8| AccountId::new(format!("{n:012}")).expect("an account");
        machine.account = Some(of(1));
        let id = machine.id.to_string();
        let mut world = World::with([machine]).with_job(JobStatus::Runnable, requested(1, 1));
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

    #[test]
    fn a_finding_has_the_tags_of_its_resource_before_those_of_its_machine() {
        let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut machine = instance(1);
        machine.tags = BTreeMap::from([tag("team", "infra"), tag("env", "prod")]);
        let id = machine.id.to_string();
        let mut world = World::with([machine]).with_job(JobStatus::Runnable, requested(1, 1));
        world.job().tags = BTreeMap::from([tag("team", "genomics")]);
        let mut lost = volume(400, "gp3", 100);
        lost.tags = (0..60).map(|n| tag(&format!("key-{n:02}"), "x")).collect();
        world
            .inventory
            .storage
            .volumes
            .insert(lost.id.clone(), lost);
        let facts = world.facts();
        let of = |id: &str, node: Option<&str>, job: Option<&str>| {
            let resource = Resource {
                node: node.map(str::to_owned),
                ..Resource::named(id.to_owned(), "x", &region())
            };
            tags(&facts, &resource, job)
        };
        let both = BTreeMap::from([tag("team", "genomics"), tag("env", "prod")]);
        assert_eq!(of("job-1", Some(&id), None), both);
        assert_eq!(of("a step", Some(&id), Some("job-1")), both);
        assert_eq!(of(&id, None, None)["team"], "infra");
        assert!(of("queue/q", None, None).is_empty());
        assert_eq!(of("vol-1", None, None).len(), Resource::MAX_TAGS);
    }
}
