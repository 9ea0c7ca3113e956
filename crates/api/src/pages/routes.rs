//! The paths of the pages.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get};

use crate::endpoints::{Template, with_only};
use crate::pages::{
    assets, costs, finding, findings, gantt, live, node, nodes, overview, probes, run, runs,
    search, step, steps, usage,
};
use crate::store::Store;

type Route = (&'static str, MethodRouter<Arc<Store>>);

/// The pages. The gateway has the same list, in `terraform/api.tf`.
fn routes() -> [Route; 16] {
    [
        ("/", get(overview::overview)),
        ("/assets/{asset}", get(assets::asset)),
        ("/costs", get(costs::costs)),
        ("/findings", get(findings::findings)),
        ("/findings/{finding}", get(finding::finding)),
        ("/live", get(live::live)),
        ("/nodes", get(nodes::nodes)),
        ("/nodes/{node}", get(node::node)),
        ("/probes", get(probes::probes)),
        ("/runs", get(runs::runs)),
        ("/runs/{run}", get(run::run)),
        ("/runs/{run}/timeline.json", get(gantt::timeline)),
        ("/runs/{run}/usage.json", get(usage::usage)),
        ("/search", get(search::search)),
        ("/steps", get(steps::steps)),
        ("/steps/{step}", get(step::step)),
    ]
}

/// The paths.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    routes().into_iter().map(|(path, _)| path)
}

/// The paths with a parameter.
pub(crate) fn templates() -> impl Iterator<Item = Template> {
    paths().filter_map(Template::of)
}

/// The router of the pages.
pub(crate) fn router() -> Router<Arc<Store>> {
    routes().into_iter().fold(Router::new(), |router, route| {
        let (path, methods) = route;
        router.route(path, with_only(methods, "GET".to_owned()))
    })
}
