//! Removes findings that the policy exempts, and reports them as not evaluated.

use std::collections::BTreeMap;

use ebb_model::finding::Finding;
use ebb_model::inventory::batch::job::JobId;
use ebb_model::policy::exemption::{Exemptable, Exemption};
use ebb_model::report::NotEvaluated;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::NodeId;

use crate::facts::Facts;

/// The exemption of a finding with its end; `None` if no exemption applies.
pub(crate) fn exempt(facts: &Facts<'_>, finding: &Finding) -> Option<NotEvaluated> {
    let exemption = holding(facts, finding)?;
    Some(NotEvaluated {
        rule: finding.kind.slug().to_owned(),
        resource: finding.resource.id.clone(),
        name: finding.resource.name.clone(),
        reason: match &exemption.schedule {
            None => format!("exempt until {}: {}", exemption.until, exemption.reason),
            Some(schedule) => format!(
                "exempt until {}, {schedule}: {}",
                exemption.until, exemption.reason
            ),
        },
    })
}

/// Ended exemptions; Ebb evaluates their resources again.
pub(crate) fn ended(facts: &Facts<'_>) -> impl Iterator<Item = Gap> {
    let exemptions = facts.policy.exempt.iter();
    let ended = exemptions.filter(|exemption| exemption.has_ended(facts.now));
    ended.map(|exemption| {
        Gap::new(
            format!("policy: exemption of {exemption}"),
            format!(
                "the exemption has ended, so its resources are evaluated again ({})",
                exemption.reason
            ),
        )
    })
}

/// Exemptions with the name of a machine in place of its id, which exempt nothing.
pub(crate) fn by_name(facts: &Facts<'_>) -> impl Iterator<Item = Gap> {
    let instances = &facts.inventory.instances;
    let exemptions = facts.policy.exempt.iter();
    let holding = exemptions.filter(|exemption| exemption.holds_at(facts.now));
    holding.filter_map(|exemption| {
        let name = exemption.resource.as_deref()?;
        let has_id = instances.keys().any(|id| id.as_str() == name);
        let mut named = instances.values();
        let named = named.find(|instance| !has_id && instance.name() == Some(name))?;
        Some(Gap::new(
            format!("policy: exemption of {exemption}"),
            format!(
                "it exempts nothing, because `resource` is the id and not the name; write {}",
                named.id
            ),
        ))
    })
}

/// The first exemption that applies to a finding.
fn holding<'a>(facts: &Facts<'a>, finding: &Finding) -> Option<&'a Exemption> {
    if facts.policy.exempt.is_empty() {
        return None;
    }
    let resource = &finding.resource;
    let ids: Vec<&str> = [Some(resource.id.as_str()), resource.node.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    let tags: Vec<&BTreeMap<String, String>> =
        ids.iter().filter_map(|id| tags_of(facts, id)).collect();
    let what = Exemptable {
        kind: finding.kind,
        account: resource.account.as_ref(),
        ids: &ids,
        tags: &tags,
    };
    let mut exemptions = facts.policy.exempt.iter();
    exemptions.find(|exemption| exemption.holds_at(facts.now) && exemption.covers(&what))
}

fn tags_of<'a>(facts: &Facts<'a>, id: &str) -> Option<&'a BTreeMap<String, String>> {
    let inventory = facts.inventory;
    let instance = || {
        let node = NodeId::new(id).ok()?;
        inventory.instances.get(&node).map(|i| &i.tags)
    };
    let job = || {
        let job = JobId::new(id).ok()?;
        inventory.batch.jobs.get(&job).map(|job| &job.tags)
    };
    let storage = || inventory.storage.tags_of(id);
    instance().or_else(job).or_else(storage)
}

#[cfg(test)]
mod tests {
    use crate::testing::{World, instance};
    use ebb_model::policy::Policy;

    #[test]
    fn an_exempt_finding_is_said_to_be_exempt_and_an_ended_exemption_is_said() {
        let check = |until: &str, expect: Result<(), &str>, gaps: usize| {
            let mut world = World::with([instance(1)]);
            world.policy = Policy::parse(&format!(
                "[[exempt]]\ntag = \"Owner=ada\"\nuntil = \"{until}\"\nreason = \"a course\"\n"
            ))
            .expect("it is valid");
            world.watch(1, 0, 60, |_, _| {});
            let got = world.verdict().map(drop);
            assert_eq!(got, expect.map_err(str::to_owned), "{until}");
            assert_eq!(world.evaluate().gaps.len(), gaps, "{until}");
        };
        check("2030-01-01", Err("exempt until 2030-01-01: a course"), 0);
        check("2020-01-01", Ok(()), 1);
    }

    #[test]
    fn an_exemption_by_the_name_of_a_machine_is_said_to_exempt_nothing() {
        let check = |resource: &str, gaps: usize| {
            let mut machine = instance(1);
            machine.tags.insert("Name".to_owned(), "login".to_owned());
            let id = machine.id.to_string();
            let mut world = World::with([machine]);
            let resource = resource.replace("ID", &id);
            world.policy = Policy::parse(&format!(
                "[[exempt]]\nresource = \"{resource}\"\nuntil = \"2030-01-01\"\nreason = \"r\"\n"
            ))
            .expect("it is valid");
            world.watch(1, 0, 60, |_, _| {});
            let report = world.evaluate();
            let of_id = report.gaps.iter().filter(|gap| gap.reason.ends_with(&id));
            assert_eq!(of_id.count(), gaps, "{resource}");
        };
        check("login", 1);
        check("ID", 0);
        check("other", 0);
    }
}
