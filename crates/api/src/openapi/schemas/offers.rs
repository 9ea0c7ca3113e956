//! Schemas of risks, bottlenecks and machine types of a step.

use ebb_model::advice::bottleneck::{Binding, Boundness, RequestedResource};
use ebb_model::advice::offer::{
    Assumed, Basis, HeldUpBy, Offered, Offers, PaidPrice, Reason, SpotRisk,
};
use ebb_model::advice::sized_request::{ChanceRange, Risk, SizedInput};
use ebb_model::confidence::Level;
use ebb_model::cost::PriceBasis;
use ebb_model::inventory::instance::Market;
use ebb_model::inventory::spot_market::{SpotScore, SpotWish};
use ebb_telemetry::step::resource_usage::TaskState;
use serde_json::{Value, json};

use crate::openapi::write::{
    Named, count, list, money, object_of, one_of, or_null, reference, share, text, time,
};

pub(crate) fn offers() -> Named {
    vec![
        (
            "Risk",
            object_of::<Risk>(&[
                ("oom_ppm", or_null(&share())),
                ("attempts", list(&count())),
                ("samples_needed", count()),
                (
                    "oom_between",
                    or_null(&object_of::<ChanceRange>(&[
                        ("from_ppm", share()),
                        ("to_ppm", share()),
                    ])),
                ),
            ]),
        ),
        (
            "SizedInput",
            object_of::<SizedInput>(&[("input", count()), ("memory", count())]),
        ),
        ("Bound", bound()),
        (
            "Offers",
            object_of::<Offers>(&[
                ("best", list(&reference("Offer"))),
                ("now", or_null(&reference("Offer"))),
                ("spot", list(&reference("Offer"))),
                ("spot_machines", count()),
                ("spot_score", or_null(&reference("SpotScore"))),
                ("elsewhere", list(&reference("Offer"))),
                ("try_next", or_null(&reference("Offer"))),
                ("in_the_way_of_arm", list(&text())),
                (
                    "left_out",
                    json!({"type": "object", "additionalProperties": count()}),
                ),
            ]),
        ),
        (
            "SpotScore",
            object_of::<SpotScore>(&[
                (
                    "wish",
                    object_of::<SpotWish>(&[
                        ("region", text()),
                        ("types", list(&text())),
                        ("machines", count()),
                    ]),
                ),
                ("score", count()),
                ("at", time()),
            ]),
        ),
        ("Offer", offer()),
        (
            "SpotRisk",
            object_of::<SpotRisk>(&[
                ("interrupted", share()),
                ("redo_usd_a_run", money()),
                ("break_even", or_null(&reference("Duration"))),
            ]),
        ),
    ]
}

fn bound() -> Value {
    let doing = json!({
        "type": "object",
        "propertyNames": one_of::<TaskState>(),
        "additionalProperties": share(),
    });
    object_of::<Boundness>(&[
        ("by", or_null(&one_of::<Binding>())),
        ("computing", or_null(&share())),
        ("waiting", or_null(&share())),
        ("disk", or_null(&share())),
        ("network", or_null(&share())),
        ("doing", doing),
        ("cores_used", or_null(&share())),
        ("memory_used", or_null(&share())),
        ("underused", list(&one_of::<RequestedResource>())),
    ])
}

fn offer() -> Value {
    object_of::<Offered>(&[
        ("instance_type", text()),
        (
            "architecture",
            or_null(&json!({"enum": ["x86_64", "arm64"]})),
        ),
        ("vcpus", or_null(&count())),
        ("memory", or_null(&count())),
        ("region", text()),
        ("per_hour", money()),
        ("wall", reference("Duration")),
        ("usd_a_run", money()),
        ("runs_a_machine", count()),
        ("held_up_by", one_of::<HeldUpBy>()),
        ("basis", one_of::<Basis>()),
        ("market", one_of::<Market>()),
        ("saves_a_run", or_null(&money())),
        ("moving_usd_a_run", money()),
        ("spot", or_null(&reference("SpotRisk"))),
        ("reasons", list(&one_of::<Reason>())),
        ("assumed", list(&one_of::<Assumed>())),
        ("confidence", one_of::<Level>()),
        ("samples", count()),
        (
            "paid",
            or_null(&object_of::<PaidPrice>(&[
                ("basis", one_of::<PriceBasis>()),
                ("list_per_hour", or_null(&money())),
            ])),
        ),
    ])
}
