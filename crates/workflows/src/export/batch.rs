//! AWS Batch: a shell script that registers job definitions again with new requests.
//!
//! A registration replaces the whole definition, and a report contains only its name and request.
//! So the script patches the output of `describe-job-definitions`. Command, image, roles, volumes,
//! environment, retry strategy and all other fields stay.

use std::collections::BTreeMap;
use std::fmt::Write;

use ebb_model::advice::step::StepAdvice;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::one_line;
use ebb_telemetry::step::StepKind;

use crate::export::request::{Change, is_known_to_engine, mib, nothing, simulated_note};

/// A job definition of one account and region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Definition<'a> {
    account: Option<&'a str>,
    region: Option<&'a str>,
    name: &'a str,
}

/// A script for `sh`.
pub(super) fn batch(steps: &[StepAdvice]) -> String {
    let mut by_definition: BTreeMap<Definition<'_>, &StepAdvice> = BTreeMap::new();
    let mut others: Vec<&str> = Vec::new();
    for step in steps {
        let is_definition = has_definition(step);
        let name = definition_name(&step.step).filter(|_| is_definition);
        let Some(name) = name else {
            others.extend(Change::new(step).map(|change| change.name));
            continue;
        };
        let definition = Definition {
            account: step.account.as_ref().map(|account| account.as_str()),
            region: step.region.as_ref().map(|region| region.as_str()),
            name,
        };
        let entry = by_definition.entry(definition).or_insert(step);
        if step.should_ask.memory > entry.should_ask.memory {
            *entry = step;
        }
    }
    let changes = by_definition.into_iter();
    let changes: Vec<(Definition<'_>, Change<'_>)> = changes
        .filter_map(|(definition, step)| Some((definition, Change::new(step)?)))
        .filter(|(_, change)| change.is_of_request())
        .collect();
    if changes.is_empty() {
        return match others.is_empty() {
            true => nothing("#"),
            false => left_out(&others),
        };
    }
    let origins = steps.iter().map(|step| step.origin);
    let mut out = String::from("#!/bin/sh\n");
    out.push_str(&simulated_note(
        "#",
        origins.max().unwrap_or(Origin::Measured),
    ));
    out.push_str(SCRIPT);
    out.push_str(&whose_credentials(&changes));
    for (definition, change) in &changes {
        resize(&mut out, definition, change);
    }
    out.push_str(&left_out(&others));
    out.push_str("exit \"$failed\"\n");
    out
}

/// Whether the step has the name of its job definition.
pub(super) fn has_definition(step: &StepAdvice) -> bool {
    may_be_of_batch(step.kind) && is_known_to_engine(step)
}

/// Whether a step of this kind has the name of its job definition. A process or rule of an engine
/// does not, even if its tasks run on Batch.
fn may_be_of_batch(kind: StepKind) -> bool {
    match kind {
        StepKind::SlurmJob | StepKind::NextflowTask | StepKind::SnakemakeJob => false,
        StepKind::EcsTask
        | StepKind::Pod
        | StepKind::Container
        | StepKind::Session
        | StepKind::Service
        | StepKind::Tree => true,
    }
}

/// Comments that name the steps that the script does not change.
pub(super) fn left_out(names: &[&str]) -> String {
    let names = names.iter().map(|name| one_line(name));
    let lines = names
        .map(|name| format!("# Skipped, because it is not the name of a job definition: {name}\n"));
    lines.collect()
}

/// Lines that print the caller's account, if the account of a definition is known. The AWS CLI
/// requires a region for this call; any region works.
fn whose_credentials(changes: &[(Definition<'_>, Change<'_>)]) -> String {
    let mut known = changes.iter().filter(|(one, _)| one.account.is_some());
    let Some((first, _)) = known.next() else {
        return "account=\n".to_owned();
    };
    let region = first.region.map(|region| format!(" --region {region}"));
    format!(
        "account=$(aws sts get-caller-identity{} --query Account --output text) || exit 1\n",
        region.unwrap_or_default()
    )
}

fn resize(out: &mut String, definition: &Definition<'_>, change: &Change<'_>) {
    let text = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let now = [
        change
            .now
            .cores
            .map(|n| format!("{} vCPU", crate::export::request::whole(n))),
        change.now.memory.map(|n| format!("{} MiB", mib(n))),
    ];
    let now: Vec<String> = now.into_iter().flatten().collect();
    let _ = writeln!(
        out,
        "# now {}\nresize {} {} {} {} {}",
        if now.is_empty() {
            "unknown".to_owned()
        } else {
            now.join(", ")
        },
        definition.account.unwrap_or("-"),
        definition.region.unwrap_or("-"),
        definition.name,
        text(change.cores),
        text(change.sizes.first().copied().map(mib)),
    );
}

/// The name of a job definition without ARN and revision; `None` if the text is not such a name.
///
/// Source: `jobDefinitionName` of `RegisterJobDefinition`: up to 128 letters, digits, hyphens and
/// underscores, the first of them a letter or a digit.
fn definition_name(text: &str) -> Option<&str> {
    let name = match text.strip_prefix("arn:") {
        Some(arn) => arn.split_once(":job-definition/")?.1,
        None => text,
    };
    let name = match name.rsplit_once(':') {
        Some((name, revision)) if revision.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    };
    let is_name = name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    is_name.then_some(name)
}

/// The beginning of all scripts.
///
/// Source: `DescribeJobDefinitions` and `RegisterJobDefinition` in the API reference of AWS Batch.
/// The script deletes fields that the first returns and the second refuses; a test checks the list.
const SCRIPT: &str = r#"# Registers a new revision of each job definition below, with another request for vCPU
# and memory. Image, command, roles, volumes, environment, retry strategy, timeout,
# platform and tags are copied from the newest active revision. Earlier revisions stay.
#
# Needs the AWS CLI and jq, and permission for batch:DescribeJobDefinitions,
# batch:RegisterJobDefinition, batch:TagResource and iam:PassRole.
# Where Terraform, CloudFormation or a workflow engine registers a definition, change the
# request there instead: its next registration replaces this one.
set -u
failed=0

patch='
def request($type; $value):
  if $value == "-" then . else map(select(.type != $type)) + [{type: $type, value: $value}] end;
def asks($type): any(.resourceRequirements[]; .type == $type);
(.jobDefinitions // []) | max_by(.revision)
| if . == null then error("there is no active job definition of this name") else . end
| if .containerProperties == null
  then error("it has no containerProperties: change its request by hand") else . end
| if (.platformCapabilities // []) | index("FARGATE")
  then error("Fargate takes fixed pairs of vCPU and memory: change its request by hand") else . end
| .containerProperties |= (
    .resourceRequirements = ((.resourceRequirements // [])
      | request("VCPU"; $vcpu) | request("MEMORY"; $memory))
    | if asks("VCPU") then del(.vcpus) else . end
    | if asks("MEMORY") then del(.memory) else . end)
| if .tags then .tags |= with_entries(select(.key | startswith("aws:") | not)) else . end
| del(.jobDefinitionArn, .revision, .status, .containerOrchestrationType)
'

# resize ACCOUNT REGION NAME VCPU MEMORY_MIB; - stands for the default, or for no change
resize() {
  if [ "$1" != - ] && [ "$1" != "$account" ]; then
    echo "$3: skipped, because it belongs to account $1 and the credentials to $account" >&2
    failed=1
    return
  fi
  region=$2 name=$3
  [ "$region" != - ] || region=
  if definition=$(aws batch describe-job-definitions ${region:+--region "$region"} \
      --job-definition-name "$name" --status ACTIVE --output json |
      jq --arg vcpu "$4" --arg memory "$5" "$patch") && [ -n "$definition" ] &&
    aws batch register-job-definition ${region:+--region "$region"} \
      --cli-input-json "$definition" --query jobDefinitionArn --output text
  then :
  else
    echo "$name: failed" >&2
    failed=1
  fi
}

"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_batch_accepts_are_used() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(definition_name(text), expect, "{text}");
        };
        check("star", Some("star"));
        check("star:7", Some("star"));
        check(
            "arn:aws:batch:us-east-1:111122223333:job-definition/star_2-a:12",
            Some("star_2-a"),
        );
        check("NFCORE:STAR", None);
        check("arn:aws:batch:us-east-1:111122223333:job/star", None);
        check("", None);
        check("-rf", None);
        check("a b", None);
        check("$(id)", None);
        check(&"a".repeat(129), None);
    }
}
