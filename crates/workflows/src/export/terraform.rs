//! Terraform: a diff with `-` for present lines and `+` for new ones. Without the `-` lines each
//! block is a valid configuration.

use std::fmt::Write;

use crate::export::batch::{has_definition, left_out};
use crate::export::environment::{MAX_VCPUS, kind, strategy};
use crate::export::machines::Pool;
use crate::export::request::{
    Change, IMAGE, changes, is_known_to_engine, mib, nothing, plain_name, simulated_note, whole,
};
use ebb_model::advice::step::StepAdvice;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::one_line;

/// Job definitions and their compute environments.
pub(super) fn batch(steps: &[StepAdvice], pools: &[Pool<'_>]) -> String {
    let (of_batch, others): (Vec<_>, Vec<_>) = steps.iter().cloned().partition(has_definition);
    let mut changes = changes(&of_batch);
    changes.retain(Change::is_of_request);
    let others = others.iter().filter(|step| is_known_to_engine(step));
    let others: Vec<&str> = others.filter_map(Change::new).map(|one| one.name).collect();
    let mut out = head(steps);
    for change in &changes {
        definition(&mut out, change);
    }
    for pool in pools {
        environment(&mut out, pool);
    }
    out.push_str(&left_out(&others));
    match changes.is_empty() && pools.is_empty() {
        true if others.is_empty() => nothing("#"),
        true => left_out(&others),
        false => out,
    }
}

/// Launch templates and the Auto Scaling groups that use them.
pub(super) fn groups(steps: &[StepAdvice], pools: &[Pool<'_>]) -> String {
    let mut out = head(steps);
    for pool in pools {
        group(&mut out, pool);
    }
    match pools.is_empty() {
        true => "# No instance type is recommended.\n".to_owned(),
        false => out,
    }
}

fn head(steps: &[StepAdvice]) -> String {
    let origins = steps.iter().map(|step| step.origin);
    let note = simulated_note("#", origins.max().unwrap_or(Origin::Measured));
    format!(
        "{note}# A diff: lines with - are present, lines with + are new. Keep your own lines \
         instead\n# of the unmarked ones; image, command, roles, volumes and environment stay \
         unchanged.\n"
    )
}

fn definition(out: &mut String, to: &Change<'_>) {
    let name = plain_name(to.name);
    let tasks = if to.samples == 1 { "task" } else { "tasks" };
    let _ = writeln!(
        out,
        "# from {} {tasks}\n resource \"aws_batch_job_definition\" \"{name}\" {{\n   \
         name = \"{name}\"\n   type = \"container\"\n   container_properties = jsonencode({{\n     \
         image = \"{IMAGE}\"\n     resourceRequirements = [",
        to.samples
    );
    let cores = to.now.cores.map(whole);
    let memory = to.now.memory.map(mib);
    change(out, "VCPU", cores, to.cores);
    change(out, "MEMORY", memory, to.sizes.first().copied().map(mib));
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
    let name = plain_name(&pool.name);
    let _ = writeln!(
        out,
        "# {}\n resource \"aws_batch_compute_environment\" \"{name}\" {{\n   type = \"MANAGED\"\n   \
         compute_resources {{",
        one_line(&pool.description()),
    );
    let now: Vec<&str> = match pool.allowed.is_empty() {
        true => pool.now.iter().copied().collect(),
        false => pool.allowed.clone(),
    };
    if !now.is_empty() {
        let _ = writeln!(out, "-    instance_type = [{}]", list(&now));
    }
    let _ = writeln!(
        out,
        "+    type = \"{}\"\n+    instance_type = [{}]\n+    allocation_strategy = \"{}\"\n     \
         min_vcpus = 0\n     max_vcpus = {MAX_VCPUS}\n     \
         subnets = [\"REPLACE-WITH-A-SUBNET\"]\n     \
         security_group_ids = [\"REPLACE-WITH-A-SECURITY-GROUP\"]\n   }}\n }}",
        kind(pool.market),
        list(&pool.types),
        strategy(pool.market)
    );
}

fn group(out: &mut String, pool: &Pool<'_>) {
    let name = plain_name(&pool.name);
    let first = pool.types.first().copied().unwrap_or_default();
    let (strategy, on_demand) = match pool.is_spot() {
        true => ("spot_allocation_strategy = \"price-capacity-optimized\"", 0),
        false => ("on_demand_allocation_strategy = \"prioritized\"", 100),
    };
    let _ = writeln!(
        out,
        "# {}\n resource \"aws_launch_template\" \"{name}\" {{",
        one_line(&pool.description())
    );
    for now in pool.now.iter().take(1) {
        let _ = writeln!(out, "-  instance_type = \"{now}\"");
    }
    if let Some(architecture) = pool.new_architecture() {
        let _ = writeln!(
            out,
            "+  image_id = \"REPLACE-WITH-AN-IMAGE-FOR-{architecture}\""
        );
    }
    let _ = writeln!(
        out,
        "+  instance_type = \"{first}\"\n }}\n resource \"aws_autoscaling_group\" \"{name}\" {{\n   \
         min_size = 0\n   max_size = 1\n   vpc_zone_identifier = [\"REPLACE-WITH-A-SUBNET\"]\n   \
         mixed_instances_policy {{\n     instances_distribution {{\n\
         +      {strategy}\n+      on_demand_base_capacity = 0\n+      on_demand_percentage_above_base_capacity = {on_demand}\n     }}\n     launch_template {{\n       \
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

fn list(types: &[&str]) -> String {
    let quoted = types.iter().map(|name| text(name));
    let quoted: Vec<String> = quoted.collect();
    quoted.join(", ")
}

/// A string in Terraform's language, sufficient for names of types.
fn text(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    format!("\"{}\"", name.chars().filter(plain).collect::<String>())
}
