//! Terraform: lines of a diff, `-` what is there and `+` what to write. Without the
//! lines of `-` each block is whole, so what stands unmarked and does not fit is
//! yours to keep.

use std::fmt::Write;

use super::environment::{MAX_VCPUS, kind, strategy};
use super::machines::{Pool, pools};
use super::{Ask, IMAGE, asks, mib, nothing, plain_name, simulated_note, whole};
use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;

/// Job definitions, and the compute environments for them.
pub(super) fn batch(steps: &[StepAdvice]) -> String {
    let (asks, pools) = (asks(steps), pools(steps));
    let mut out = head(steps);
    for ask in &asks {
        definition(&mut out, ask);
    }
    for pool in &pools {
        environment(&mut out, pool);
    }
    or_nothing(out, asks.is_empty() && pools.is_empty())
}

/// Launch templates and the Auto Scaling groups that start machines by them.
pub(super) fn groups(steps: &[StepAdvice]) -> String {
    let pools = pools(steps);
    let mut out = head(steps);
    for pool in &pools {
        group(&mut out, pool);
    }
    or_nothing(out, pools.is_empty())
}

fn or_nothing(text: String, is_nothing: bool) -> String {
    match is_nothing {
        true => nothing("#"),
        false => text,
    }
}

fn head(steps: &[StepAdvice]) -> String {
    let origins = steps.iter().map(|step| step.origin);
    let note = simulated_note("#", origins.max().unwrap_or(Origin::Measured));
    format!("{note}# - what is there, + what to write; of unmarked lines keep your own\n")
}

fn definition(out: &mut String, ask: &Ask<'_>) {
    let name = plain_name(ask.name);
    let times = if ask.samples == 1 { "run" } else { "runs" };
    let _ = writeln!(
        out,
        "# told by {} {times}\n resource \"aws_batch_job_definition\" \"{name}\" {{\n   \
         name = \"{name}\"\n   type = \"container\"\n   container_properties = jsonencode({{\n     \
         image = \"{IMAGE}\"\n     resourceRequirements = [",
        ask.samples
    );
    let cores = ask.now.cores.map(whole);
    let memory = ask.now.memory.map(mib);
    change(out, "VCPU", cores, ask.cores);
    change(out, "MEMORY", memory, ask.sizes.first().copied().map(mib));
    out.push_str("     ]\n   })\n }\n");
}

fn change(out: &mut String, kind: &str, now: Option<u64>, then: Option<u64>) {
    let mut line = |mark: char, value: u64| {
        let _ = writeln!(
            out,
            "{mark}      {{ type = \"{kind}\", value = \"{value}\" }},"
        );
    };
    match (now, then) {
        (Some(now), None) => line(' ', now),
        (Some(now), Some(then)) if now == then => line(' ', now),
        (now, then) => {
            if let Some(now) = now {
                line('-', now);
            }
            if let Some(then) = then {
                line('+', then);
            }
        }
    }
}

fn environment(out: &mut String, pool: &Pool<'_>) {
    let name = pool.name();
    let _ = writeln!(
        out,
        "# {}\n resource \"aws_batch_compute_environment\" \"{name}\" {{\n   type = \"MANAGED\"\n   \
         compute_resources {{\n     type = \"{}\"",
        pool.told_by(),
        kind(pool.market)
    );
    if !pool.now.is_empty() {
        let _ = writeln!(out, "-    instance_type = [{}]", list(&pool.now));
    }
    let _ = writeln!(
        out,
        "+    instance_type = [{}]\n+    allocation_strategy = \"{}\"\n     \
         min_vcpus = 0\n     max_vcpus = {MAX_VCPUS}\n     \
         subnets = [\"REPLACE-WITH-A-SUBNET\"]\n     \
         security_group_ids = [\"REPLACE-WITH-A-SECURITY-GROUP\"]\n   }}\n }}",
        list(&pool.types),
        strategy(pool.market)
    );
}

fn group(out: &mut String, pool: &Pool<'_>) {
    let name = pool.name();
    let first = pool.types.first().copied().unwrap_or_default();
    let (strategy, on_demand) = match pool.is_spot() {
        true => ("spot_allocation_strategy = \"price-capacity-optimized\"", 0),
        false => ("on_demand_allocation_strategy = \"prioritized\"", 100),
    };
    let _ = writeln!(
        out,
        "# {}\n resource \"aws_launch_template\" \"{name}\" {{",
        pool.told_by()
    );
    for now in pool.now.iter().take(1) {
        let _ = writeln!(out, "-  instance_type = \"{now}\"");
    }
    let _ = writeln!(
        out,
        "+  instance_type = \"{first}\"\n }}\n resource \"aws_autoscaling_group\" \"{name}\" {{\n   \
         min_size = 0\n   max_size = 1\n   vpc_zone_identifier = [\"REPLACE-WITH-A-SUBNET\"]\n   \
         mixed_instances_policy {{\n     instances_distribution {{\n\
         +      {strategy}\n+      on_demand_percentage_above_base_capacity = {on_demand}\n     }}\n     launch_template {{\n       \
         launch_template_specification {{\n         \
         launch_template_id = aws_launch_template.{name}.id\n         version = \"$Latest\"\n       }}"
    );
    for now in &pool.now {
        let _ = writeln!(out, "-      override {{ instance_type = \"{now}\" }}");
    }
    for name in &pool.types {
        let _ = writeln!(out, "+      override {{ instance_type = \"{name}\" }}");
    }
    out.push_str("     }\n   }\n }\n");
}

fn list<'a>(types: impl IntoIterator<Item = &'a &'a str>) -> String {
    let quoted: Vec<String> = types.into_iter().map(|t| format!("\"{t}\"")).collect();
    quoted.join(", ")
}
