//! The OpenAPI 3.1 document of the API. It is built from the same lists, filters, bounds and forms
//! that the router uses.

pub mod schemas;
pub mod write;

use ebb_model::decision::MAX_REASON_CHARS;
use ebb_workflows::export::Form;
use serde_json::{Map, Value, json};

use crate::decisions::Act;
use crate::list::{Filter, List};
use crate::openapi::schemas::schemas;
use crate::openapi::write::reference;
use crate::query::WITH_RETRY;
use crate::query::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::route::{ADVICE, FINDING, OPENAPI, RECOMMENDATION, TEXT};
use crate::targets::Target;

/// The document.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    let mut path = |at: &str, get: Value| paths.insert(at.to_owned(), json!({"get": get}));
    for each in List::ALL {
        path(each.path(), list(each));
    }
    path(RECOMMENDATION, recommendation());
    for each in Target::ALL {
        let at = format!("{}{{{}}}{ADVICE}", each.head(), each.parameter());
        path(&at, target(each));
    }
    path(TEXT, text());
    let said = Said::json("This document", &json!({"type": "object"}));
    path(OPENAPI, operation("openapi", said, Vec::new(), &[400]));
    for act in Act::ALL {
        let at = format!("{FINDING}/{}", act.slug());
        paths.insert(at, json!({"post": decide(act)}));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ebb",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Findings and recommendations of the newest sweep. Memory is in \
                bytes, cores are in thousandths, shares are in millionths; money is in US dollars, \
                as decimal strings; fields in camelCase are those of AWS Cost Optimization Hub, \
                in its units.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas()},
    })
}

/// A successful response.
struct Said {
    summary: &'static str,
    content: Value,
}

impl Said {
    fn json(summary: &'static str, schema: &Value) -> Self {
        Self {
            summary,
            content: json!({"application/json": {"schema": schema}}),
        }
    }
}

/// The error statuses of every path that reads a report.
const OF_REPORT: [u16; 5] = [400, 404, 500, 502, 503];

fn list(list: List) -> Value {
    let (id, summary, head, item) = match list {
        List::Findings => ("findings", "Waste that was observed", "Head", "Finding"),
        List::Recommendations => (
            "recommendations",
            "What to do about it, in the fields of AWS Cost Optimization Hub",
            "Head",
            "Recommendation",
        ),
        List::Nodes => ("nodes", "Every node, wasteful or not", "Head", "Node"),
        List::Steps => (
            "steps",
            "What each step asks for and should ask for",
            "Head",
            "Step",
        ),
        List::Pipelines => (
            "pipelines",
            "What the steps of each pipeline cost together, and would cost",
            "Head",
            "Group",
        ),
        List::Environments => (
            "environments",
            "What each compute environment ran, and what it should start",
            "Head",
            "Group",
        ),
        List::Runs => (
            "runs",
            "Of which runs the steps are; `unassigned` of those that nothing joins",
            "Head",
            "Run",
        ),
        List::Decisions => (
            "decisions",
            "What people decided about findings",
            "DecisionHead",
            "DecisionEntry",
        ),
        List::Prices => (
            "prices",
            "List prices of machine types, Linux, on demand",
            "PriceHead",
            "Price",
        ),
    };
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT,
    });
    let any = json!({"type": "string"});
    let mut parameters = vec![
        query("limit", "Entries at most", &limit),
        query("after", "`next` of the page before", &any),
    ];
    parameters.extend(list.filters().iter().map(filter));
    let own = json!({
        "type": "object",
        "required": ["total", "items", "next"],
        "properties": {
            "total": {"type": "integer", "minimum": 0, "description": "on all pages"},
            "items": {"type": "array", "maxItems": MAX_LIMIT, "items": reference(item)},
            "next": {"type": ["string", "null"], "description": "for `after`"},
        },
    });
    let body = json!({"allOf": [reference(head), own]});
    let said = Said::json(summary, &body);
    operation(id, said, parameters, &OF_REPORT)
}

fn filter(filter: &Filter) -> Value {
    let schema = match filter.values {
        [] => json!({"type": "string"}),
        values => json!({"type": "string", "enum": values}),
    };
    query(filter.name, filter.description, &schema)
}

fn recommendation() -> Value {
    let any = json!({"type": "string"});
    let parameters = vec![
        in_path(
            "step",
            "Job definition, job or step name",
            &json!({"type": "string", "minLength": 1}),
        ),
        query("region", "Of a step that runs in several", &any),
        query("account", "Of a step that several have", &any),
    ];
    let body = json!({"allOf": [reference("Head"), reference("OneStep")]});
    let said = Said::json("What one step should ask for and run on", &body);
    operation(
        "recommendation",
        said,
        parameters,
        &[400, 404, 409, 500, 502, 503],
    )
}

fn target(target: Target) -> Value {
    let (id, description, summary, schema) = match target {
        Target::Pipeline => (
            "pipeline",
            "As a tag or a launcher names it",
            "What the steps of one pipeline cost together, and would cost",
            "Group",
        ),
        Target::Environment => (
            "environment",
            "A compute environment of AWS Batch",
            "What one compute environment should start",
            "Group",
        ),
        Target::Node => (
            "node",
            "A node's id",
            "The cheapest type that holds what ran on a node",
            "NodeAdvice",
        ),
    };
    let any = json!({"type": "string"});
    let name = json!({"type": "string", "minLength": 1});
    let mut parameters = vec![in_path(target.parameter(), description, &name)];
    let place = target.place().iter();
    parameters.extend(place.map(|name| query(name, "Of one that is in several", &any)));
    let body = json!({"allOf": [reference("Head"), reference(schema)]});
    let errors = [400, 404, 409, 500, 502, 503];
    operation(id, Said::json(summary, &body), parameters, &errors)
}

fn text() -> Value {
    let any = json!({"type": "string"});
    let forms: Vec<&str> = Form::ALL.iter().map(|form| form.slug()).collect();
    let parameters = vec![
        in_path(
            "form",
            "For what",
            &json!({"type": "string", "enum": forms}),
        ),
        query("step", "Only of this name", &any),
        query("region", "Only of this region", &any),
        query("account", "Only of this account", &any),
        query("owner", "Only of this owner", &any),
        query(
            WITH_RETRY,
            "Nextflow: also replace which failures are retried, and how often",
            &json!({"type": "boolean", "default": false}),
        ),
    ];
    let json = json!({"schema": {"type": ["object", "array"]}});
    let said = Said {
        summary: "What is to change about steps, as text that can be pasted",
        content: json!({
            "text/plain": {"schema": any},
            "application/json": json,
        }),
    };
    operation("text", said, parameters, &OF_REPORT)
}

fn decide(act: Act) -> Value {
    let (summary, wanted) = match act {
        Act::Dismiss => (
            "Nobody is to hear of a finding again, or not before a day",
            &["reason"][..],
        ),
        Act::Snooze => (
            "Nobody is to hear of a finding before a day",
            &["reason", "until"][..],
        ),
        Act::Reopen => ("A decision about a finding is taken back", &[][..]),
    };
    let id = json!({"type": "string", "minLength": 1});
    let reason = json!({
        "type": "string", "minLength": 1, "maxLength": MAX_REASON_CHARS,
    "pattern": "\\S",
    });
    let until = json!({
        "type": "string",
        "anyOf": [{"format": "date"}, {"format": "date-time"}],
        "description": "later than now; a day holds through its end in UTC",
    });
    let body = json!({
        "type": "object",
        "required": wanted,
        "additionalProperties": false,
        "properties": {"reason": reason, "until": until},
    });
    json!({
        "operationId": act.slug(),
        "summary": summary,
        "description": "It holds from the next sweep on.",
        "parameters": [in_path("finding", "A finding's id, escaped", &id)],
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": body}},
        },
        "responses": responses(
            json!({"200": {
                "description": summary,
                "content": {"application/json": {"schema": reference("Decided")}},
            }}),
            &[400, 404, 409, 415, 500, 502, 503],
        ),
    })
}

/// All responses of a path, with its errors.
fn responses(mut all: Value, errors: &[u16]) -> Value {
    for status in errors.iter().chain(&[405]) {
        all[status.to_string()] = json!({
            "description": "A problem (RFC 9457)",
            "content": {"application/problem+json": {"schema": reference("Problem")}},
        });
    }
    all
}

fn operation(id: &str, said: Said, mut parameters: Vec<Value>, errors: &[u16]) -> Value {
    parameters.push(json!({
        "name": "If-None-Match", "in": "header", "schema": {"type": "string"},
        "description": "`ETag` of an earlier answer",
    }));
    let etag = json!({"ETag": {"schema": {"type": "string"}}});
    let good = json!({
        "200": {"description": said.summary, "headers": etag, "content": said.content},
        "304": {"description": "As `If-None-Match` knows it", "headers": etag},
    });
    json!({
        "operationId": id,
        "summary": said.summary,
        "parameters": parameters,
        "responses": responses(good, errors),
    })
}

fn query(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

fn in_path(name: &str, description: &str, schema: &Value) -> Value {
    json!({
        "name": name, "in": "path", "required": true, "description": description,
        "schema": schema,
    })
}
