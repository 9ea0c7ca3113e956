//! The paths of the pages.

use std::sync::Arc;

use axum::Router;
use axum::routing::{MethodRouter, get, post};

use crate::decisions;
use crate::endpoints::{Template, with_only};
use crate::page_link::OPEN;
use crate::pages::{
    assets, costs, finding, findings, gantt, live, node, nodes, open, overview, probes, run, runs,
    search, step, steps, usage,
};
use crate::store::Store;

/// A method, its path and its handler.
type Route = (&'static str, &'static str, MethodRouter<Arc<Store>>);

const ASSETS: &str = "/assets/";

/// The pages. The gateway has the same list, and the paths of the API for browsers.
fn routes() -> [Route; 20] {
    [
        ("GET", "/", get(overview::overview)),
        ("GET", "/assets/{asset}", get(assets::asset)),
        ("GET", "/costs", get(costs::costs)),
        ("GET", "/findings", get(findings::findings)),
        ("GET", "/findings/{finding}", get(finding::finding)),
        (
            "POST",
            "/findings/{finding}/dismiss",
            post(decisions::dismiss),
        ),
        (
            "POST",
            "/findings/{finding}/reopen",
            post(decisions::reopen),
        ),
        (
            "POST",
            "/findings/{finding}/snooze",
            post(decisions::snooze),
        ),
        ("GET", "/live", get(live::live)),
        ("GET", "/nodes", get(nodes::nodes)),
        ("GET", "/nodes/{node}", get(node::node)),
        ("GET", OPEN, get(open::open)),
        ("GET", "/probes", get(probes::probes)),
        ("GET", "/runs", get(runs::runs)),
        ("GET", "/runs/{run}", get(run::run)),
        ("GET", "/runs/{run}/timeline.json", get(gantt::timeline)),
        ("GET", "/runs/{run}/usage.json", get(usage::usage)),
        ("GET", "/search", get(search::search)),
        ("GET", "/steps", get(steps::steps)),
        ("GET", "/steps/{step}", get(step::step)),
    ]
}

/// The paths with a parameter.
pub(crate) fn templates() -> impl Iterator<Item = Template> {
    let routes = routes().into_iter();
    routes.filter_map(|(_, path, _)| Template::find(path))
}

/// Whether a path needs no cookie: the address of a link, and the style of the page that refuses.
pub(crate) fn is_public(path: &str) -> bool {
    path == OPEN || path.starts_with(ASSETS)
}

/// The router of the pages.
pub(crate) fn router() -> Router<Arc<Store>> {
    routes().into_iter().fold(Router::new(), |router, route| {
        let (method, path, handler) = route;
        router.route(path, with_only(handler, method.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The quoted routes of a file that are not of the API.
    fn routed(text: &str) -> BTreeSet<String> {
        let quoted = text.split('"').skip(1).step_by(2);
        let is_route = |text: &&str| text.starts_with("GET /") || text.starts_with("POST /");
        let pages = quoted
            .filter(is_route)
            .filter(|text| !text.contains(" /v1/"));
        pages.map(str::to_owned).collect()
    }

    #[test]
    fn the_gateways_have_the_paths_of_the_pages() {
        let mut expect: BTreeSet<String> = routes()
            .into_iter()
            .map(|(method, path, _)| format!("{method} {path}"))
            .collect();
        expect.insert("GET /data/{path+}".to_owned());
        let module = include_str!("../../../../terraform/api.tf");
        assert_eq!(routed(module), expect);
        let simulated = include_str!("../../../../tests/sim/deploy.py");
        assert_eq!(routed(simulated), expect);
    }
}
