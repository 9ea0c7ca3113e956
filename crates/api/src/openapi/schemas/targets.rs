//! Schemas of recommendations for pipelines, environments and nodes, of runs and of decisions.

use ebb_model::advice::group::{Fleet, GroupAdvice, Member, Together};
use ebb_model::advice::node::{NodeAdvice, NodeOffer, Used};
use ebb_model::advice::offer::Basis;
use ebb_model::confidence::Level;
use ebb_model::cost::PriceBasis;
use ebb_model::decision::{Decision, Verb};
use ebb_model::inventory::instance::Market;
use ebb_model::report::workflow_runs::{JoinedBy, RunSeen};
use ebb_telemetry::origin::Origin;
use serde_json::json;

use crate::openapi::write::{
    Named, count, list, money, object, object_of, one_of, or_null, reference, text, time,
};

pub(crate) fn targets() -> Named {
    let mut all = vec![
        (
            "Member",
            object_of::<Member>(&[
                ("step", text()),
                ("runs", count()),
                ("wall", reference("Duration")),
                ("samples_needed", count()),
                ("asks", reference("Request")),
                ("should_ask", reference("Request")),
            ]),
        ),
        (
            "Fleet",
            object_of::<Fleet>(&[
                ("instance_type", text()),
                (
                    "architecture",
                    or_null(&json!({"enum": ["x86_64", "arm64"]})),
                ),
                ("market", one_of::<Market>()),
                ("per_hour_usd", money()),
                ("machine_time", reference("Duration")),
                ("machines", count()),
                ("usd", money()),
                ("basis", or_null(&one_of::<Basis>())),
                (
                    "together",
                    list(&object_of::<Together>(&[
                        ("step", text()),
                        ("runs", count()),
                    ])),
                ),
            ]),
        ),
        (
            "Used",
            object_of::<Used>(&[("cores", or_null(&count())), ("memory", or_null(&count()))]),
        ),
    ];
    all.push(group());
    all.push(node());
    all.push(run());
    all.extend(decisions());
    all
}

fn group() -> (&'static str, serde_json::Value) {
    let mut group = object_of::<GroupAdvice>(&[
        ("name", text()),
        ("region", text()),
        ("account", or_null(&text())),
        ("owner", or_null(&text())),
        ("origin", one_of::<Origin>()),
        ("from", time()),
        ("to", time()),
        ("runs", count()),
        ("steps", list(&reference("Member"))),
        ("allowed", list(&text())),
        ("allocation", or_null(&text())),
        ("now", or_null(&reference("Fleet"))),
        ("resized", or_null(&reference("Fleet"))),
        ("offers", list(&reference("Fleet"))),
        ("spot", list(&reference("Fleet"))),
        ("spot_score", or_null(&reference("SpotScore"))),
        ("saving_a_month_usd", or_null(&money())),
        ("seen_by_replayed_ppm", or_null(&count())),
        ("list_as_of", or_null(&time())),
        ("confidence", one_of::<Level>()),
        ("assumed", list(&text())),
        ("refused", or_null(&text())),
    ]);
    group["properties"]["update"] = json!({
        "type": ["object", "null"],
        "additionalProperties": true,
        "description": "input of `aws batch update-compute-environment --cli-input-json`",
    });
    ("Group", group)
}

fn node() -> (&'static str, serde_json::Value) {
    let offer = object_of::<NodeOffer>(&[
        ("instance_type", text()),
        ("per_hour_usd", money()),
        ("saves_an_hour_usd", or_null(&money())),
    ]);
    let node = object_of::<NodeAdvice>(&[
        ("node", text()),
        ("name", or_null(&text())),
        ("region", text()),
        ("instance_type", text()),
        ("market", one_of::<Market>()),
        ("owner", or_null(&text())),
        ("origin", one_of::<Origin>()),
        ("hours_seen", count()),
        ("used", reference("Used")),
        ("needs", reference("Used")),
        ("per_hour_usd", or_null(&money())),
        ("basis", or_null(&one_of::<PriceBasis>())),
        ("list_per_hour_usd", or_null(&money())),
        ("list_as_of", or_null(&time())),
        ("offers", list(&offer)),
        ("saving_a_month_usd", or_null(&money())),
        ("assumed", list(&text())),
        ("refused", or_null(&text())),
    ]);
    ("NodeAdvice", node)
}

fn run() -> (&'static str, serde_json::Value) {
    let mut run = object_of::<RunSeen>(&[
        ("run", text()),
        ("by", or_null(&one_of::<JoinedBy>())),
        ("pipeline", or_null(&text())),
        ("steps", count()),
        ("running", count()),
        ("failed", count()),
        ("cpu", count()),
        ("from", time()),
        ("to", time()),
        ("samples", list(&text())),
        ("samples_left_out", count()),
        ("origin", one_of::<Origin>()),
    ]);
    run["properties"]["handed"] = list(&object(&[
        ("node", text()),
        ("step", text()),
        ("key", text()),
        ("at", time()),
        ("run", text()),
        ("sample", or_null(&text())),
        ("trace_id", or_null(&text())),
        (
            "labels",
            json!({"type": "object", "additionalProperties": text()}),
        ),
    ]));
    ("Run", run)
}

fn decisions() -> Named {
    vec![
        (
            "Decision",
            object_of::<Decision>(&[
                ("verb", one_of::<Verb>()),
                ("reason", text()),
                ("by", text()),
                ("at", time()),
                ("until", or_null(&time())),
            ]),
        ),
        ("DecisionHead", object(&[("schema", text())])),
        (
            "DecisionEntry",
            object(&[
                ("finding", text()),
                ("decision", reference("Decision")),
                ("holds", json!({"type": "boolean"})),
            ]),
        ),
    ]
}
