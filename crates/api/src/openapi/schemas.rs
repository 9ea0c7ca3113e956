//! The schemas of all answers. The names of fields and variants come from the types that the
//! program reads. A test checks the answers of the built-in demo account against them.

pub mod offers;
pub mod targets;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::step::StepAdvice;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::finding::{Action, Finding, Recommendation, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{InstanceState, Market};
use ebb_model::report::Totals;
use ebb_model::report::node_summary::NodeSummary;
use ebb_model::savings::Sums;
use ebb_report::reason_codes::ReasonCode;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepKind;
use serde_json::{Map, Value, json};

use crate::openapi::write::{
    Named, controller, count, list, money, object, object_of, one_of, or_null, reference, share,
    text, time,
};

/// All schemas by name.
pub(crate) fn schemas() -> Value {
    let mut all = Map::new();
    for (name, schema) in report()
        .into_iter()
        .chain(findings())
        .chain(resources())
        .chain(steps())
        .chain(offers::offers())
        .chain(targets::targets())
        .chain(sizing())
        .chain(hub())
    {
        all.insert(name.to_owned(), schema);
    }
    Value::Object(all)
}

fn report() -> Named {
    vec![
        (
            "Head",
            object(&[
                ("schema", text()),
                ("at", time()),
                ("origin", one_of::<Origin>()),
                ("totals", reference("Totals")),
                ("not_judged", count()),
                ("gaps", count()),
                ("left_out", count()),
                ("joined_ppm", or_null(&share())),
            ]),
        ),
        (
            "Totals",
            object_of::<Totals>(&[
                ("running_instances", count()),
                ("with_probe", count()),
                ("on_metrics", count()),
                ("jobs", count()),
                ("waste_per_hour_usd", money()),
                ("spent_usd", money()),
                ("saving_a_month_usd", money()),
                ("at_most", reference("Sums")),
                ("cost_a_month_usd", or_null(&money())),
                ("cost_at_most_a_month_usd", or_null(&money())),
                ("without_price", count()),
                ("price_bases", list(&one_of::<PriceBasis>())),
            ]),
        ),
        (
            "Sums",
            object_of::<Sums>(&[
                ("per_hour_usd", money()),
                ("spent_usd", money()),
                ("saving_a_month_usd", money()),
            ]),
        ),
        (
            "PriceHead",
            object(&[("schema", text()), ("as_of", text())]),
        ),
        (
            "Price",
            object(&[
                ("id", text()),
                ("instance_type", text()),
                ("region", text()),
                ("market", one_of::<Market>()),
                ("usd_per_hour", money()),
                (
                    "basis",
                    json!({"enum": ["listed", "unchecked", "from_family", "earlier_list", "told"]}),
                ),
                ("vcpus", count()),
                ("memory", count()),
                ("architecture", json!({"enum": ["x86_64", "arm64"]})),
                ("gpu", or_null(&text())),
            ]),
        ),
        (
            "Problem",
            object(&[
                ("type", text()),
                ("title", text()),
                ("status", count()),
                ("detail", text()),
            ]),
        ),
    ]
}

fn findings() -> Named {
    vec![
        (
            "Finding",
            object_of::<Finding>(&[
                ("id", text()),
                ("kind", one_of::<FindingKind>()),
                ("resource", reference("Resource")),
                ("window", object(&[("from", time()), ("to", time())])),
                ("coverage", or_null(&share())),
                (
                    "evidence",
                    json!({
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": text()},
                        "description": "by `type`",
                        "additionalProperties": true,
                    }),
                ),
                ("confidence", reference("Confidence")),
                ("cost", or_null(&reference("Cost"))),
                (
                    "remedy",
                    object(&[
                        ("action", one_of::<Action>()),
                        ("advice", text()),
                        ("command", or_null(&text())),
                    ]),
                ),
                ("recommendation", or_null(&reference("Sizing"))),
            ]),
        ),
        (
            "Confidence",
            object_of::<Confidence>(&[("level", one_of::<Level>()), ("reason", text())]),
        ),
        (
            "Cost",
            object_of::<Cost>(&[
                ("per_hour_usd", money()),
                ("basis", one_of::<PriceBasis>()),
                ("list_per_hour_usd", or_null(&money())),
                ("spent_usd", money()),
                ("saving_a_month_usd", money()),
                ("counted", or_null(&reference("Counted"))),
                ("price_as_of", or_null(&time())),
                ("list_as_of", or_null(&time())),
            ]),
        ),
        (
            "Counted",
            object(&[
                ("per_hour_usd", money()),
                ("spent_usd", money()),
                ("saving_a_month_usd", money()),
                ("rest_counted_by", or_null(&text())),
            ]),
        ),
    ]
}

fn resources() -> Named {
    vec![
        (
            "Decided",
            object(&[
                ("schema", text()),
                ("finding", text()),
                ("decision", reference("Decision")),
                ("holds", json!({"type": "boolean"})),
            ]),
        ),
        ("Resource", resource()),
        (
            "Node",
            object_of::<NodeSummary>(&[
                ("id", text()),
                ("name", or_null(&text())),
                ("region", or_null(&text())),
                ("instance_type", or_null(&text())),
                ("market", or_null(&one_of::<Market>())),
                ("state", or_null(&one_of::<InstanceState>())),
                ("owner", or_null(&text())),
                ("controller", or_null(&controller())),
                ("origin", one_of::<Origin>()),
                ("heard_at", or_null(&time())),
                ("per_hour_usd", or_null(&money())),
                ("basis", or_null(&one_of::<PriceBasis>())),
                ("price_as_of", or_null(&time())),
                ("findings", list(&text())),
            ]),
        ),
    ]
}

fn resource() -> Value {
    let mut resource = object_of::<Resource>(&[
        ("id", text()),
        ("name", or_null(&text())),
        ("region", text()),
        ("account", or_null(&text())),
        ("node", or_null(&text())),
        ("owner", or_null(&text())),
        ("instance_type", or_null(&text())),
        ("market", or_null(&one_of::<Market>())),
        ("controller", or_null(&controller())),
        ("origin", one_of::<Origin>()),
    ]);
    // Omitted if there are none.
    resource["properties"]["tags"] = json!({"type": "object", "additionalProperties": text(), "maxProperties": Resource::MAX_TAGS});
    resource
}

fn steps() -> Named {
    let step = [
        ("step", text()),
        ("region", or_null(&text())),
        ("account", or_null(&text())),
        ("kind", one_of::<StepKind>()),
        ("owner", or_null(&text())),
        ("origin", one_of::<Origin>()),
        ("last_seen", time()),
        ("runs", count()),
        ("samples", count()),
        ("failed", count()),
        ("oom_kills", count()),
        ("mean_wall", or_null(&reference("Duration"))),
        ("machines", list(&text())),
        ("asks", reference("Request")),
        ("should_ask", reference("Request")),
        ("risk", reference("Risk")),
        ("by_input", list(&reference("SizedInput"))),
        ("on_fargate", or_null(&reference("Request"))),
        ("bound", reference("Bound")),
        ("offers", reference("Offers")),
        ("saving_a_month", or_null(&money())),
        ("finding", or_null(&text())),
    ];
    let whole: Vec<_> = step.into_iter().chain(reasons()).collect();
    vec![
        ("Step", object_of::<StepAdvice>(&whole)),
        ("Reasons", object(&reasons())),
        (
            "Request",
            object_of::<SizedRequest>(&[
                ("cores", or_null(&count())),
                ("memory", or_null(&count())),
            ]),
        ),
    ]
}

fn sizing() -> Named {
    vec![
        ("Duration", object(&[("secs", count()), ("nanos", count())])),
        (
            "Sizing",
            object_of::<Recommendation>(&[
                ("current", reference("Request")),
                ("recommended", reference("Request")),
                ("samples", count()),
                (
                    "placement",
                    or_null(&object(&[
                        ("instance_type", text()),
                        ("region", text()),
                        ("per_hour_usd", money()),
                        ("price_as_of", or_null(&time())),
                    ])),
                ),
                ("risk", reference("Risk")),
                ("offers", reference("Offers")),
                ("current_per_hour_usd", or_null(&money())),
                ("recommended_per_hour_usd", or_null(&money())),
                ("assumptions", list(&text())),
            ]),
        ),
    ]
}

fn reasons() -> [(&'static str, Value); 5] {
    let risk = json!({"type": "integer", "minimum": 0, "maximum": 4});
    [
        ("reason_codes", list(&json!({"enum": ReasonCode::ALL}))),
        ("performance_risk", or_null(&risk)),
        ("confidence", one_of::<Level>()),
        ("evidence", list(&text())),
        ("assumed", list(&text())),
    ]
}

fn hub() -> Named {
    let dollars = json!({"type": "number"});
    let tag = object(&[("key", text()), ("value", text())]);
    let recommendation = object(&[
        ("recommendationId", text()),
        ("accountId", or_null(&text())),
        ("region", text()),
        ("resourceId", text()),
        ("resourceArn", or_null(&text())),
        ("currentResourceType", text()),
        ("recommendedResourceType", text()),
        ("currentResourceSummary", text()),
        ("recommendedResourceSummary", text()),
        ("actionType", one_of::<Action>()),
        (
            "implementationEffort",
            json!({"enum": ["VeryLow", "Low", "Medium", "High", "VeryHigh"]}),
        ),
        ("restartNeeded", json!({"type": "boolean"})),
        ("rollbackPossible", json!({"type": "boolean"})),
        ("estimatedMonthlySavings", or_null(&dollars)),
        ("estimatedSavingsPercentage", or_null(&dollars)),
        ("estimatedMonthlyCost", or_null(&dollars)),
        ("currencyCode", text()),
        ("costCalculationLookbackPeriodInDays", count()),
        (
            "estimatedSavingsOverCostCalculationLookbackPeriod",
            or_null(&dollars),
        ),
        ("recommendationLookbackPeriodInDays", count()),
        ("lastRefreshTimestamp", time()),
        ("source", text()),
        ("tags", list(&tag)),
        ("finding", text()),
        ("kind", one_of::<FindingKind>()),
        ("resource", reference("Resource")),
        ("evidence", text()),
        ("confidence", reference("Confidence")),
        ("cost", or_null(&reference("Cost"))),
        ("advice", text()),
        ("recommendation", or_null(&reference("Sizing"))),
        ("reasons", or_null(&reference("Reasons"))),
    ]);
    // A step without a finding has only the field `step`.
    let mut of_step = recommendation.clone();
    of_step["required"] = json!(["step"]);
    of_step["properties"]["step"] = reference("Step");
    vec![("Recommendation", recommendation), ("OneStep", of_step)]
}
