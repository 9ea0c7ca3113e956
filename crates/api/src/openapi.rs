//! The OpenAPI 3.1 document. Parameters, bodies and answers come from the types of the handlers; a
//! test checks the answers of the built-in demo account against it.

use std::collections::BTreeSet;
use std::future::Future;

use axum::extract::State;
use ebb_model::schema::plain_descriptions;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, JSON};
use crate::extract::{Query, Shared};
use crate::problem::{Details, Problem};

/// The document as text.
pub(crate) struct Document(String);

impl From<Value> for Document {
    fn from(document: Value) -> Self {
        Self(document.to_string())
    }
}

/// An endpoint without query parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}

/// The answer of the document itself.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct OpenApi {}

/// Answers with the document.
pub(crate) async fn openapi(
    Query(NoParameters {}): Query<NoParameters>,
    State(store): Shared,
) -> Result<Answer<OpenApi>, Problem> {
    Answer::text(JSON, store.document.0.clone(), "program")
}

/// The document of these paths.
pub(crate) fn document(paths: Map<String, Value>, mut schemas: Schemas) -> Value {
    let mut document = json!({
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
        "components": {"schemas": schemas.answers.take_definitions(true)},
    });
    plain_descriptions(&mut document);
    document
}

/// The schemas of answers, by name, and of parameters and bodies, each in its place.
pub(crate) struct Schemas {
    answers: SchemaGenerator,
    requests: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        let answers = SchemaSettings::draft2020_12().for_serialize();
        let answers = answers.with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let requests = SchemaSettings::draft2020_12().for_deserialize();
        let requests = requests.with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        Self {
            answers: answers.into_generator(),
            requests: requests.into_generator(),
        }
    }
}

impl Schemas {
    /// The schema of an answer.
    pub(crate) fn answer<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    /// The schema of a body or of parameters.
    pub(crate) fn request<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().to_value()
    }
}

/// One operation: a method of a path.
pub(crate) struct Operation {
    id: &'static str,
    summary: &'static str,
    description: Option<&'static str>,
    /// The name of the parameter in the path.
    path_parameter: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<Value>,
    content: Value,
    errors: BTreeSet<u16>,
    is_conditional: bool,
}

impl Operation {
    pub(crate) fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            description: None,
            path_parameter: None,
            parameters: Vec::new(),
            body: None,
            content: json!({}),
            // Every path refuses other methods.
            errors: BTreeSet::from([405]),
            is_conditional: false,
        }
    }

    #[must_use]
    pub(crate) fn description(self, description: &'static str) -> Self {
        let description = Some(description);
        Self {
            description,
            ..self
        }
    }

    /// Adds error statuses to those of the parameters.
    #[must_use]
    pub(crate) fn errors(mut self, errors: &[u16]) -> Self {
        self.errors.extend(errors);
        self
    }

    /// An operation whose answer has an `ETag`.
    #[must_use]
    pub(crate) fn conditional(self) -> Self {
        let is_conditional = true;
        Self {
            is_conditional,
            ..self
        }
    }

    pub(crate) fn set_path(&mut self, path: &'static str) {
        let after = path.split_once('{').map(|(_, rest)| rest);
        let name = after.and_then(|rest| rest.split_once('}'));
        self.path_parameter = name.map(|(name, _)| name);
    }

    /// Adds the parameter in the path.
    pub(crate) fn add_name(&mut self, schema: Value) {
        let name = self.path_parameter.unwrap_or_default();
        self.parameters.push(parameter(name, "path", true, schema));
    }

    /// Adds each property of an object as a parameter in the query.
    pub(crate) fn add_query(&mut self, object: &Value) {
        let properties = object["properties"].as_object().into_iter().flatten();
        for (name, schema) in properties {
            let schema = without_null(schema.clone());
            self.parameters
                .push(parameter(name, "query", false, schema));
        }
    }

    pub(crate) fn set_body(&mut self, schema: &Value) {
        self.set_body_of("application/json", schema);
    }

    /// The body in another content type.
    pub(crate) fn set_body_of(&mut self, content_type: &str, schema: &Value) {
        let content = json!({content_type: {"schema": schema}});
        self.body = Some(json!({"required": true, "content": content}));
    }

    /// Adds a required header.
    pub(crate) fn add_header(&mut self, name: &str) {
        let text = json!({"type": "string"});
        self.parameters.push(parameter(name, "header", true, text));
    }

    pub(crate) fn set_content(&mut self, content: Value) {
        self.content = content;
    }

    pub(crate) fn add_errors(&mut self, errors: &[u16]) {
        self.errors.extend(errors);
    }

    /// The operation in the document.
    pub(crate) fn finish(mut self, schemas: &mut Schemas) -> Value {
        let mut good = json!({"description": self.summary, "content": self.content});
        let mut responses = Map::new();
        if self.is_conditional {
            let known = json!({"type": "string", "description": "`ETag` of an earlier answer"});
            self.parameters
                .push(parameter("If-None-Match", "header", false, known));
            let etag = json!({"ETag": {"schema": {"type": "string"}}});
            good["headers"] = etag.clone();
            let unchanged = json!({"description": "Unchanged since the answer whose `ETag` is in `If-None-Match`", "headers": etag});
            responses.insert("304".to_owned(), unchanged);
        }
        responses.insert("200".to_owned(), good);
        for status in self.errors {
            let schema = schemas.answer::<Details>();
            let problem = json!({
                "description": "A problem (RFC 9457)",
                "content": {"application/problem+json": {"schema": schema}},
            });
            responses.insert(status.to_string(), problem);
        }
        let mut operation = json!({
            "operationId": self.id,
            "summary": self.summary,
            "parameters": self.parameters,
            "responses": responses,
        });
        if let Some(description) = self.description {
            operation["description"] = description.into();
        }
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

/// A parameter; its description moves from its schema.
fn parameter(name: &str, place: &str, required: bool, mut schema: Value) -> Value {
    let description = schema
        .as_object_mut()
        .and_then(|schema| schema.remove("description"));
    let mut parameter = json!({"name": name, "in": place, "schema": schema});
    if required {
        parameter["required"] = true.into();
    }
    if let Some(description) = description {
        parameter["description"] = description;
    }
    parameter
}

/// The schema without `null`: an optional parameter is left out instead.
fn without_null(mut schema: Value) -> Value {
    let Some(object) = schema.as_object_mut() else {
        return schema;
    };
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    for list in ["type", "enum"] {
        if let Some(Value::Array(values)) = object.get_mut(list) {
            values.retain(|value| *value != "null" && !value.is_null());
            if let ("type", [only]) = (list, &values[..]) {
                let only = only.clone();
                object.insert(list.to_owned(), only);
            }
        }
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|schema| schema["type"] != "null");
        if let [Value::Object(only)] = &any[..] {
            let mut only = only.clone();
            object.remove("anyOf");
            only.extend(std::mem::take(object));
            *object = only;
        }
    }
    schema
}

/// A parameter of a handler.
pub(crate) trait Input {
    /// Writes into the operation what the parameter accepts and which errors it has.
    fn describe(_operation: &mut Operation, _schemas: &mut Schemas) {}
}

/// The answer of a handler.
pub(crate) trait Output {
    /// Writes the content of the answer.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);
}

impl<T: Output> Output for Result<T, Problem> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        T::describe(operation, schemas);
    }
}

/// A handler whose parameters and answer describe themselves.
pub(crate) trait Describe<T> {
    /// Writes all of them into the operation.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);
}

macro_rules! describe {
    ($($input:ident),+) => {
        impl<F, M, Answered, $($input),+> Describe<(M, $($input,)+)> for F
        where
            F: FnOnce($($input),+) -> Answered,
            Answered: Future<Output: Output>,
            $($input: Input),+
        {
            fn describe(operation: &mut Operation, schemas: &mut Schemas) {
                $($input::describe(operation, schemas);)+
                Answered::Output::describe(operation, schemas);
            }
        }
    };
}

describe!(A);
describe!(A, B);
describe!(A, B, C);
describe!(A, B, C, D);
describe!(A, B, C, D, E);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_parameter_is_left_out_and_never_null() {
        let check = |schema, expect| assert_eq!(without_null(schema), expect);
        check(
            json!({"type": ["string", "null"]}),
            json!({"type": "string"}),
        );
        check(
            json!({"anyOf": [{"enum": ["a"]}, {"type": "null"}], "description": "b"}),
            json!({"enum": ["a"], "description": "b"}),
        );
        check(
            json!({"type": "integer", "default": 100}),
            json!({"type": "integer", "default": 100}),
        );
    }
}
