//! The document that describes the API, OpenAPI 3.1, from the same paths, bounds and
//! kinds that the router reads.

use ebb_domain::finding::FindingKind;
use ebb_domain::step::StepKind;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::route::{
    DEFAULT_LIMIT, FINDINGS, MAX_LIMIT, OPENAPI, RECOMMENDATION, RECOMMENDATIONS, STEPS,
};

const FINDING_KINDS: [FindingKind; 8] = [
    FindingKind::IdleNode,
    FindingKind::LowDutyNode,
    FindingKind::StuckBatchJob,
    FindingKind::OverprovisionedStep,
    FindingKind::UnattachedVolume,
    FindingKind::StoppedMachinesVolume,
    FindingKind::OldVolumeType,
    FindingKind::IdleAddress,
];

const STEP_KINDS: [StepKind; 9] = [
    StepKind::EcsTask,
    StepKind::Pod,
    StepKind::Container,
    StepKind::SlurmJob,
    StepKind::NextflowTask,
    StepKind::SnakemakeJob,
    StepKind::Session,
    StepKind::Service,
    StepKind::Tree,
];

/// The document.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    let mut path = |at: &str, get: Value| paths.insert(at.to_owned(), json!({"get": get}));
    path(
        FINDINGS,
        list(
            "findings",
            "Waste that was observed",
            "Finding",
            &FINDING_KINDS,
        ),
    );
    path(
        RECOMMENDATIONS,
        list(
            "recommendations",
            "What to ask for and run on instead",
            "Recommendation",
            &FINDING_KINDS,
        ),
    );
    path(
        STEPS,
        list(
            "steps",
            "What each step asks for and should ask for",
            "Step",
            &STEP_KINDS,
        ),
    );
    path(RECOMMENDATION, recommendation());
    path(
        OPENAPI,
        operation(
            "openapi",
            "This document",
            Vec::new(),
            json!({"type": "object"}),
            &[400],
        ),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ebb",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Findings and recommendations of the newest sweep. Memory is in \
                bytes, cores are in thousandths, money is in millionths of a US dollar, shares \
                are in millionths.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas()},
    })
}

fn list(id: &str, summary: &str, item: &str, kinds: &[impl Serialize]) -> Value {
    let text = json!({"type": "string"});
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
    });
    let parameters = vec![
        query("limit", "Entries at most", &limit),
        query("after", "`next` of the page before", &text),
        query("region", "Only of this region", &text),
        query(
            "kind",
            "Only of this kind",
            &json!({"type": "string", "enum": kinds}),
        ),
        query("owner", "Only of this owner", &text),
    ];
    let own = json!({
        "type": "object",
        "required": ["total", "items", "next"],
        "properties": {
            "total": {"type": "integer", "minimum": 0},
            "items": {"type": "array", "items": reference(item)},
            "next": {"type": ["string", "null"], "description": "for `after`"},
        },
    });
    let body = json!({"allOf": [reference("Head"), own]});
    operation(id, summary, parameters, body, &[400, 404, 500, 502, 503])
}

fn recommendation() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let step = json!({
        "name": "step", "in": "path", "required": true, "schema": text,
        "description": "Job definition, job or step name",
    });
    let parameters = vec![
        step,
        query(
            "region",
            "Of a step that runs in several",
            &json!({"type": "string"}),
        ),
    ];
    let body = json!({"allOf": [reference("Head"), reference("Recommendation")]});
    let errors = [400, 404, 409, 500, 502, 503];
    operation(
        "recommendation",
        "The same of one step",
        parameters,
        body,
        &errors,
    )
}

fn operation(
    id: &str,
    summary: &str,
    parameters: Vec<Value>,
    body: Value,
    errors: &[u16],
) -> Value {
    let etag = json!({"ETag": {"schema": {"type": "string"}}});
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({
            "description": summary,
            "headers": etag,
            "content": {"application/json": {"schema": body}},
        }),
    );
    let unchanged = json!({"description": "As `If-None-Match` knows it", "headers": etag});
    responses.insert("304".to_owned(), unchanged);
    for status in errors.iter().chain(&[405]) {
        let problem = json!({
            "description": "A problem (RFC 9457)",
            "content": {"application/problem+json": {"schema": reference("Problem")}},
        });
        responses.insert(status.to_string(), problem);
    }
    json!({
        "operationId": id,
        "summary": summary,
        "parameters": parameters,
        "responses": responses,
    })
}

fn query(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// What is promised of each; more may be added.
fn schemas() -> Value {
    json!({
        "Head": object(&[
            ("schema", json!({"type": "string"})),
            ("at", json!({"type": "string", "format": "date-time"})),
            ("origin", json!({"enum": ["measured", "simulated"]})),
            ("totals", json!({"type": "object"})),
        ]),
        "Finding": object(&[
            ("id", json!({"type": "string"})),
            ("kind", json!({"type": "string"})),
            ("resource", reference("Resource")),
            ("evidence", json!({"type": "object"})),
            ("confidence", json!({"type": "object"})),
            ("cost", json!({"type": ["object", "null"]})),
            ("remedy", json!({"type": "object"})),
        ]),
        "Recommendation": object(&[
            ("finding", json!({"type": "string"})),
            ("resource", reference("Resource")),
            ("evidence", json!({"type": "string"})),
            ("advice", json!({"type": "string"})),
            ("recommendation", object(&[
                ("current", reference("Request")),
                ("recommended", reference("Request")),
                ("samples", json!({"type": "integer", "minimum": 0})),
                ("risk", reference("Risk")),
                ("offers", json!({"type": "object"})),
            ])),
        ]),
        "Step": object(&[
            ("step", json!({"type": "string"})),
            ("region", json!({"type": ["string", "null"]})),
            ("kind", json!({"enum": STEP_KINDS})),
            ("runs", json!({"type": "integer", "minimum": 0})),
            ("asks", reference("Request")),
            ("should_ask", reference("Request")),
            ("risk", reference("Risk")),
            ("bound", json!({"type": "object"})),
        ]),
        "Resource": object(&[
            ("id", json!({"type": "string"})),
            ("region", json!({"type": "string"})),
            ("owner", json!({"type": ["string", "null"]})),
        ]),
        "Request": object(&[
            ("cores", json!({"type": ["integer", "null"], "minimum": 0})),
            ("memory", json!({"type": ["integer", "null"], "minimum": 0})),
        ]),
        "Risk": object(&[
            ("oom_ppm", json!({"type": ["integer", "null"], "minimum": 0, "maximum": 1_000_000})),
            ("attempts", json!({"type": "array", "items": {"type": "integer"}})),
            ("samples_needed", json!({"type": "integer", "minimum": 0})),
        ]),
        "Problem": object(&[
            ("type", json!({"type": "string"})),
            ("title", json!({"type": "string"})),
            ("status", json!({"type": "integer"})),
            ("detail", json!({"type": "string"})),
        ]),
    })
}

/// An object all of whose fields named here are there.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let mut properties = Map::new();
    for (name, schema) in fields {
        properties.insert((*name).to_owned(), schema.clone());
    }
    json!({"type": "object", "required": names, "properties": properties})
}
