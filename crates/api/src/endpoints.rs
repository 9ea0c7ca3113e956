//! Registers handlers, and writes their operations into the OpenAPI document.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, get, post};
use http::Uri;
use serde_json::{Map, Value};

use crate::openapi::{Describe, Operation, Schemas, document};
use crate::problem::Problem;
use crate::store::Store;

/// The endpoints of the API.
#[derive(Default)]
pub(crate) struct Endpoints {
    paths: BTreeMap<&'static str, Endpoint>,
    schemas: Schemas,
}

/// One path.
#[derive(Default)]
struct Endpoint {
    methods: MethodRouter<Arc<Store>>,
    allowed: Vec<&'static str>,
    operations: Map<String, Value>,
}

/// A path with a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Template {
    /// The part before the parameter.
    pub(crate) head: &'static str,
    /// The part after it.
    pub(crate) tail: &'static str,
}

impl Template {
    /// `None` for a path without a parameter.
    pub(crate) fn find(path: &'static str) -> Option<Self> {
        let (head, rest) = path.split_once('{')?;
        let (_, tail) = rest.split_once('}')?;
        Some(Self { head, tail })
    }
}

impl Endpoints {
    /// Adds a handler that changes nothing.
    #[must_use]
    pub(crate) fn get<H, T>(self, path: &'static str, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Arc<Store>> + Describe<T>,
        T: 'static,
    {
        self.add::<H, T>(path, ("GET", get(handler)), operation.conditional())
    }

    /// Adds a handler that changes something.
    #[must_use]
    pub(crate) fn post<H, T>(self, path: &'static str, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Arc<Store>> + Describe<T>,
        T: 'static,
    {
        self.add::<H, T>(path, ("POST", post(handler)), operation)
    }

    fn add<H: Describe<T>, T>(
        mut self,
        path: &'static str,
        (method, handler): (&'static str, MethodRouter<Arc<Store>>),
        mut operation: Operation,
    ) -> Self {
        operation.set_path(path);
        H::describe(&mut operation, &mut self.schemas);
        let endpoint = self.paths.entry(path).or_default();
        let methods = std::mem::take(&mut endpoint.methods);
        endpoint.methods = methods.merge(handler);
        endpoint.allowed.push(method);
        let operation = operation.finish(&mut self.schemas);
        endpoint
            .operations
            .insert(method.to_ascii_lowercase(), operation);
        self
    }

    /// The paths with a parameter. Those with the longest end come first, because a parameter at the
    /// end of a path would include it.
    pub(crate) fn templates(&self) -> Vec<Template> {
        let mut templates: Vec<Template> = self
            .paths
            .keys()
            .filter_map(|path| Template::find(path))
            .collect();
        templates.sort_by_key(|template| Reverse(template.tail.len()));
        templates
    }

    /// The router and the document.
    pub(crate) fn finish(self) -> (Router<Arc<Store>>, Value) {
        let mut router = Router::new();
        let mut paths = Map::new();
        for (path, endpoint) in self.paths {
            let allowed = endpoint.allowed.join(", ");
            router = router.route(path, with_only(endpoint.methods, allowed));
            paths.insert(path.to_owned(), endpoint.operations.into());
        }
        let router = router.fallback(async |uri: Uri| Problem::Path(uri.path().to_owned()));
        (router, document(paths, self.schemas))
    }
}

/// The same methods; every other method is refused with the allowed ones. GET would also answer
/// HEAD, which the gateway does not route.
pub(crate) fn with_only(
    methods: MethodRouter<Arc<Store>>,
    allowed: String,
) -> MethodRouter<Arc<Store>> {
    let refuse = move || {
        let problem = Problem::Method(allowed.clone());
        async move { problem }
    };
    methods.head(refuse.clone()).fallback(refuse)
}
