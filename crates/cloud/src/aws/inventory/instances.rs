//! EC2 instances.

use aws_sdk_ec2::types::{
    Instance as Ec2Instance, InstanceLifecycleType, InstanceStateName, Reservation,
};
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_telemetry::identity::{AccountId, InstanceType, NodeId, Region};
use jiff::Timestamp;

use super::super::error::cloud_error;
use super::super::time::timestamp;
use super::region_part::{Clients, Part};
use crate::permissions::DESCRIBE_INSTANCES;

/// Maximum number of instances in one page.
const PAGE: i32 = 1_000;

/// All instances of the region, in every state.
pub(super) async fn describe(clients: &Clients) -> Part<Instance> {
    let mut part = Part::default();
    let call = clients.ec2.describe_instances().into_paginator();
    let pages = call.page_size(PAGE).send();
    paged!(part, DESCRIBE_INSTANCES, "instances", pages, |page| {
        for reservation in page.reservations() {
            read(reservation, &clients.region, &mut part);
        }
    });
    part
}

fn read(reservation: &Reservation, region: &Region, part: &mut Part<Instance>) {
    let account = reservation
        .owner_id()
        .and_then(|id| AccountId::new(id).ok());
    for ec2_instance in reservation.instances() {
        part.take(
            DESCRIBE_INSTANCES,
            instance(ec2_instance, account.clone(), region),
        );
    }
}

fn instance(
    ec2_instance: &Ec2Instance,
    account: Option<AccountId>,
    region: &Region,
) -> Result<Instance, String> {
    let id = ec2_instance.instance_id().ok_or("instance without an id")?;
    let about = |what: String| format!("{id}: {what}");
    let instance_type = ec2_instance
        .instance_type()
        .ok_or_else(|| about("no instance type".to_owned()))?;
    let state = ec2_instance
        .state()
        .and_then(|s| s.name())
        .and_then(state)
        .ok_or_else(|| about("unknown state".to_owned()))?;
    let tags = ec2_instance.tags().iter().filter_map(|tag| {
        let value = tag.value().unwrap_or_default();
        Some((tag.key()?.to_owned(), value.to_owned()))
    });
    let id = NodeId::new(id).map_err(|e| e.to_string())?;
    let kind = InstanceType::new(instance_type.as_str()).map_err(|e| about(e.to_string()))?;
    Ok(Instance {
        account,
        launched_at: ec2_instance.launch_time().and_then(timestamp),
        tags: tags.collect(),
        image: ec2_instance.image_id().map(str::to_owned),
        state_since: state_since(ec2_instance),
        is_taken_back: is_taken_back(ec2_instance),
        ..Instance::new(id, region.clone(), kind, state, market(ec2_instance))
    })
}

/// The purchase option. Every other lifecycle, and an instance in a reservation, is capacity that
/// is paid for even if it is not used.
fn market(ec2_instance: &Ec2Instance) -> Market {
    let reserved = [
        ec2_instance.capacity_reservation_id(),
        ec2_instance.capacity_block_id(),
    ];
    match ec2_instance.instance_lifecycle() {
        Some(InstanceLifecycleType::Spot) => Market::Spot,
        Some(_) => Market::Reserved,
        None if reserved.iter().flatten().any(|id| !id.is_empty()) => Market::Reserved,
        None => Market::OnDemand,
    }
}

/// When an instance stopped. EC2 returns it in a text: `User initiated (2026-11-01 10:00:00 GMT)`;
/// a simulator uses UTC.
fn state_since(ec2_instance: &Ec2Instance) -> Option<Timestamp> {
    let ended = [InstanceStateName::Stopped, InstanceStateName::Terminated];
    let ended = ended.contains(ec2_instance.state()?.name()?);
    let words = ec2_instance.state_transition_reason().filter(|_| ended)?;
    let (_, time) = words.split_once('(')?;
    let time = time
        .strip_suffix(" GMT)")
        .or_else(|| time.strip_suffix(" UTC)"))?;
    format!("{}Z", time.replacen(' ', "T", 1)).parse().ok()
}

/// Source: EC2 API reference, `StateReason`.
fn is_taken_back(ec2_instance: &Ec2Instance) -> bool {
    const CODES: [&str; 2] = [
        "Server.SpotInstanceShutdown",
        "Server.SpotInstanceTermination",
    ];
    let code = ec2_instance.state_reason().and_then(|reason| reason.code());
    code.is_some_and(|code| CODES.contains(&code))
}

fn state(name: &InstanceStateName) -> Option<InstanceState> {
    match name {
        InstanceStateName::Pending => Some(InstanceState::Pending),
        InstanceStateName::Running => Some(InstanceState::Running),
        InstanceStateName::ShuttingDown | InstanceStateName::Stopping => {
            Some(InstanceState::Stopping)
        }
        InstanceStateName::Stopped => Some(InstanceState::Stopped),
        InstanceStateName::Terminated => Some(InstanceState::Terminated),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::primitives::DateTime;
    use aws_sdk_ec2::types::builders::InstanceBuilder;
    use aws_sdk_ec2::types::{
        InstanceState as Ec2State, InstanceType as Ec2InstanceType, StateReason, Tag,
    };

    use super::*;

    fn make_instance() -> InstanceBuilder {
        let running = Ec2State::builder().name(InstanceStateName::Running).build();
        Ec2Instance::builder()
            .instance_id("i-0abc")
            .instance_type(Ec2InstanceType::M5Xlarge)
            .state(running)
    }

    fn part(builder: InstanceBuilder) -> Part<Instance> {
        let reservation = Reservation::builder()
            .owner_id("123456789012")
            .instances(builder.build())
            .build();
        let mut part = Part::default();
        read(
            &reservation,
            &Region::new("eu-west-1").expect("a region"),
            &mut part,
        );
        part
    }

    #[test]
    fn an_instance_is_read_as_ec2_describes_it() {
        let name = Tag::builder().key("Name").value("worker").build();
        let read = part(
            make_instance()
                .launch_time(DateTime::from_secs(1_700_000_000))
                .instance_lifecycle(InstanceLifecycleType::Spot)
                .tags(name),
        );
        let instance = &read.found[0];
        assert_eq!(instance.instance_type.as_str(), "m5.xlarge");
        assert_eq!(instance.market, Market::Spot);
        assert_eq!(instance.name(), Some("worker"));
        assert_eq!(
            instance.launched_at.map(|t| t.as_second()),
            Some(1_700_000_000)
        );
        assert_eq!(
            instance.account.as_ref().map(AccountId::as_str),
            Some("123456789012")
        );
        let plain = part(make_instance());
        assert_eq!(plain.found[0].market, Market::OnDemand);
        assert_eq!(plain.found[0].launched_at, None);
        let reserved = part(
            make_instance()
                .capacity_reservation_id("cr-1")
                .image_id("ami-1"),
        );
        assert_eq!(reserved.found[0].market, Market::Reserved);
        assert_eq!(reserved.found[0].image.as_deref(), Some("ami-1"));
    }

    #[test]
    fn since_when_it_stands_so_is_read_from_the_words() {
        let check = |name: InstanceStateName, words: &str, expect: Option<&str>| {
            let state = Ec2State::builder().name(name).build();
            let read = part(make_instance().state(state).state_transition_reason(words));
            let since = read.found[0].state_since.map(|at| at.to_string());
            assert_eq!(since.as_deref(), expect, "{words}");
        };
        let words = "User initiated (2026-11-01 10:00:00 GMT)";
        let stopped = InstanceStateName::Stopped;
        check(stopped.clone(), words, Some("2026-11-01T10:00:00Z"));
        let gone = InstanceStateName::Terminated;
        check(gone, words, Some("2026-11-01T10:00:00Z"));
        check(stopped.clone(), "User initiated", None);
        check(stopped, "", None);
        check(InstanceStateName::Running, words, None);
    }

    #[test]
    fn only_what_its_cloud_ended_for_want_of_capacity_is_taken_back() {
        let check = |code: &str, expect: bool| {
            let reason = StateReason::builder().code(code).build();
            let read = part(make_instance().state_reason(reason));
            assert_eq!(read.found[0].is_taken_back, expect, "{code}");
        };
        check("Server.SpotInstanceTermination", true);
        check("Server.SpotInstanceShutdown", true);
        check("Server.InsufficientInstanceCapacity", false);
        check("Client.UserInitiatedShutdown", false);
    }

    #[test]
    fn what_cannot_be_understood_is_a_gap() {
        let check = |builder: InstanceBuilder, reason: &str| {
            let read = part(builder);
            assert!(read.found.is_empty());
            let shown = read.refused[0].to_string();
            assert_eq!(shown, format!("ec2:DescribeInstances failed: {reason}"));
        };
        check(Ec2Instance::builder(), "instance without an id");
        check(
            Ec2Instance::builder().instance_id("i-1"),
            "i-1: no instance type",
        );
        check(make_instance().set_state(None), "i-0abc: unknown state");
        let later = Ec2State::builder().name("resting".into()).build();
        check(make_instance().state(later), "i-0abc: unknown state");
        check(
            make_instance().instance_id("i 1"),
            "node id 'i 1' holds a character outside A-Z a-z 0-9 . _ : / @ = + -",
        );
    }
}
