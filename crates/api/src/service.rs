//! The routes of the API and the pages, and the way of a request through them.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::response::IntoResponse;
use ebb_cloud::ports::Objects;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tower::ServiceExt;

use crate::endpoints::{Endpoints, Template};
use crate::extract::Moment;
use crate::openapi::{Document, Operation, openapi};
use crate::page_access::PageAccess;
use crate::problem::{OtherUser, Problem};
use crate::slack_signature::SigningSecret;
use crate::store::{REFRESH, Store};
use crate::{
    costs, decisions, explanations, findings, groups, metrics, nodes, page_link, pages, prices,
    probes, runs, slack, steps, tasks, whole_report,
};

/// The API over a bucket.
#[derive(Clone)]
pub struct Service {
    router: Router,
    /// The paths with a parameter.
    templates: Arc<[Template]>,
    pages: PageAccess,
}

/// The API for browsers: the same answers below another path, because the gateway lets requests with
/// a cookie pass only to the pages.
const DATA: &str = "/data/";

impl Service {
    /// The API and the pages over this bucket, for a server on loopback.
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self::with_secrets(objects, None, PageAccess::Everybody)
    }

    /// The same; open pages and the server look for a new report at this interval. Each time is
    /// a request to the bucket. With a secret, actions of Slack are accepted.
    pub fn refreshed_every(
        objects: Arc<dyn Objects>,
        interval: Duration,
        slack: Option<SigningSecret>,
    ) -> Self {
        Self::build(objects, (slack, PageAccess::Everybody), interval)
    }

    /// The API over this bucket, which accepts actions of Slack that are signed with the secret.
    pub fn with_secrets(
        objects: Arc<dyn Objects>,
        slack: Option<SigningSecret>,
        pages: PageAccess,
    ) -> Self {
        Self::build(objects, (slack, pages), REFRESH)
    }

    fn build(
        objects: Arc<dyn Objects>,
        (slack, pages): (Option<SigningSecret>, PageAccess),
        refresh: Duration,
    ) -> Self {
        let endpoints = endpoints();
        let mut templates = endpoints.templates();
        templates.extend(pages::routes::templates());
        // `/runs/{run}/timeline.json` is no run of that name.
        templates.sort_by_key(|template| Reverse(template.tail.len()));
        let (router, document) = endpoints.finish();
        let router = router.merge(pages::routes::router());
        let secrets = (slack, pages.clone());
        let document = Document::from(document);
        let store = Arc::new(Store::new(objects, document, secrets, refresh));
        Self {
            router: router.with_state(store),
            templates: templates.into(),
            pages,
        }
    }

    /// Answers one request; `now` is on a monotonic clock and `at` on the wall clock.
    pub async fn answer(
        &self,
        mut request: Request<Bytes>,
        now: Instant,
        at: Timestamp,
    ) -> Response<Bytes> {
        request.extensions_mut().insert(Moment { now, at });
        let form = Form::from_request(&request);
        let known = request.headers().get(IF_NONE_MATCH).cloned();
        let known = known.as_ref().and_then(|known| known.to_str().ok());
        let answered = match self.admitted(request, at) {
            Ok(request) => self.router.clone().oneshot(request.map(Body::from)).await,
            Err(problem) => Ok(problem.into_response()),
        };
        let answered: Result<_, Infallible> = answered;
        let Ok(mut answered) = answered;
        if form != Form::Api {
            answered = pages::answer::finish(answered, form).await;
        }
        let (mut parts, body) = answered.into_parts();
        // The server or the gateway adds it.
        parts.headers.remove(CONTENT_LENGTH);
        if known.is_some_and(|known| is_known(known, &parts.headers)) {
            parts.status = StatusCode::NOT_MODIFIED;
            parts.headers.remove(CONTENT_TYPE);
            return Response::from_parts(parts, Bytes::new());
        }
        collect(Response::from_parts(parts, body)).await
    }

    /// Answers a request of a client that may not ask, in the form of its path.
    pub async fn refuse<T>(request: &Request<T>, user: OtherUser) -> Response<Bytes> {
        let mut answered = Problem::OtherUser(user).into_response();
        let form = Form::from_request(request);
        if form != Form::Api {
            answered = pages::answer::finish(answered, form).await;
        }
        // The server adds it.
        answered.headers_mut().remove(CONTENT_LENGTH);
        collect(answered).await
    }

    /// The request to the router. The gateway verified requests to the API; those to a page need a
    /// cookie.
    fn admitted(
        &self,
        mut request: Request<Bytes>,
        at: Timestamp,
    ) -> Result<Request<Bytes>, Problem> {
        let path = request.uri().path();
        if Form::from_request(&request) != Form::Api {
            match &self.pages {
                PageAccess::Everybody => {}
                PageAccess::Nobody => return Err(Problem::Path(path.to_owned())),
                PageAccess::WithLink(_) if pages::routes::is_public(path) => {}
                PageAccess::WithLink(secret) => {
                    let caller = secret.caller_of_cookie(request.headers(), at);
                    request
                        .extensions_mut()
                        .insert(caller.ok_or(Problem::PageLink)?);
                }
            }
        }
        if let Some(uri) = of_data(request.uri()) {
            if request.method() != Method::GET {
                return Err(Problem::Method("GET".to_owned()));
            }
            *request.uri_mut() = uri;
        }
        if let Some(uri) = self.with_one_segment(request.uri()) {
            *request.uri_mut() = uri;
        }
        Ok(request)
    }

    /// The same path with the slashes of a name escaped: the gateway decodes escapes before it
    /// calls the function, and the id of a finding contains slashes. `None` for a path without a
    /// name.
    fn with_one_segment(&self, uri: &Uri) -> Option<Uri> {
        let (template, name) = self.templates.iter().find_map(|template| {
            let rest = uri.path().strip_prefix(template.head)?;
            let name = rest.strip_suffix(template.tail)?;
            (!name.is_empty()).then_some((template, name))
        })?;
        let name = percent_decode_str(name).decode_utf8_lossy();
        let name = utf8_percent_encode(&name, NON_ALPHANUMERIC);
        with_query_of(uri, format!("{}{name}{}", template.head, template.tail))
    }
}

/// The path of the API for a path of its answers for browsers; `None` for every other path.
fn of_data(uri: &Uri) -> Option<Uri> {
    let rest = uri.path().strip_prefix(DATA)?;
    with_query_of(uri, format!("/v1/{rest}"))
}

fn with_query_of(uri: &Uri, path: String) -> Option<Uri> {
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    path_and_query.parse().ok()
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The API.
    Api,
    /// A page; problems are pages, too.
    Page,
    /// An answer for the script of a page, or for download; problems are JSON.
    Data,
}

impl Form {
    fn from_request<T>(request: &Request<T>) -> Self {
        let path = request.uri().path();
        match path {
            path if path.starts_with("/v1/") => Self::Api,
            path if path.starts_with(DATA) || request.method() != Method::GET => Self::Data,
            _ => Self::Page,
        }
    }
}

/// The response with its body, which is in memory already. Its size was checked.
pub(crate) async fn collect(response: Response<Body>) -> Response<Bytes> {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Response::from_parts(parts, body)
}

/// The weak comparison that `If-None-Match` requires.
fn is_known(known: &str, headers: &HeaderMap) -> bool {
    let Some(etag) = headers.get(ETAG).and_then(|etag| etag.to_str().ok()) else {
        return false;
    };
    let mut listed = known.split(',').map(str::trim);
    listed.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == etag)
}

/// All endpoints. The handlers describe their parameters and answers.
#[expect(clippy::too_many_lines, reason = "a flat list of all endpoints")]
pub(crate) fn endpoints() -> Endpoints {
    let get = |id, summary| Operation::new(id, summary).errors(&[404]);
    let of_one = |id, summary| get(id, summary).errors(&[409]);
    let act = |id, summary| {
        let applies = "Sweeps apply it from the next one on; this API applies it at once.";
        of_one(id, summary).description(applies)
    };
    Endpoints::default()
        .get(
            "/v1/findings",
            get("findings", "List findings"),
            findings::findings,
        )
        .get(
            "/v1/recommendations",
            get(
                "recommendations",
                "List findings as recommendations, in the fields of AWS Cost Optimization Hub",
            ),
            findings::recommendations,
        )
        .get(
            "/v1/nodes",
            get("nodes", "List all nodes, with and without findings"),
            nodes::nodes,
        )
        .get(
            "/v1/steps",
            get(
                "steps",
                "List steps with their present and recommended requests",
            ),
            steps::steps,
        )
        .get(
            "/v1/pipelines",
            get(
                "pipelines",
                "List pipelines with their present and projected cost",
            ),
            groups::pipelines,
        )
        .get(
            "/v1/environments",
            get(
                "environments",
                "List compute environments with their use and recommended types",
            ),
            groups::environments,
        )
        .get(
            "/v1/runs",
            get(
                "runs",
                "List pipeline runs; `unassigned` is the run of tasks without a known run",
            ),
            runs::runs,
        )
        .get(
            "/v1/report",
            Operation::new(
                "report",
                "Show the whole newest report as the sweep stored it",
            )
            .errors(&[413, 500, 502, 503]),
            whole_report::whole_report,
        )
        .get(
            "/v1/runs/{run}",
            get("run", "Show one pipeline run with its tasks"),
            tasks::run,
        )
        .get(
            "/v1/steps/{step}/tasks",
            get("step_tasks", "List the tasks of one step, at most the 200 newest"),
            tasks::step,
        )
        .get(
            "/v1/nodes/{node}/activity",
            get(
                "node_activity",
                "Show the active hours of a node and its tasks, at most the 500 newest",
            ),
            tasks::node,
        )
        .get(
            "/v1/metrics",
            get("metrics", "Show figures of the newest report for Prometheus"),
            metrics::metrics,
        )
        .get(
            "/v1/probes",
            get("probes", "List the condition of all probes"),
            probes::probes,
        )
        .get(
            "/v1/findings/{finding}",
            get("finding", "Show one finding with its history"),
            findings::finding,
        )
        .get(
            "/v1/explain/{resource}",
            get(
                "explanation",
                "Explain why a resource has a finding, or why it was not evaluated",
            ),
            explanations::explain,
        )
        .get(
            "/v1/costs",
            get(
                "costs",
                "Divide the bill by pipeline, run, step, user or cost centre",
            ),
            costs::costs,
        )
        .get(
            "/v1/decisions",
            get("decisions", "List decisions about findings").errors(&[502]),
            decisions::decisions,
        )
        .get(
            "/v1/prices",
            get("prices", "List on-demand prices of machine types for Linux"),
            prices::prices,
        )
        .get(
            "/v1/steps/{step}/recommendation",
            of_one(
                "recommendation",
                "Show the recommended request and machine of one step",
            ),
            steps::recommendation,
        )
        .get(
            "/v1/pipelines/{pipeline}/recommendation",
            of_one(
                "pipeline",
                "Show the present and projected cost of one pipeline",
            ),
            groups::pipeline,
        )
        .get(
            "/v1/environments/{environment}/recommendation",
            of_one(
                "environment",
                "Show the recommended types of one compute environment",
            ),
            groups::environment,
        )
        .get(
            "/v1/nodes/{node}/recommendation",
            get(
                "node",
                "Show the cheapest type that fits the work of a node",
            ),
            nodes::node,
        )
        .get(
            "/v1/texts/{form}",
            get(
                "text",
                "Write the changes of steps as text for a workflow engine or tool",
            ),
            steps::text,
        )
        .get(
            "/v1/openapi.json",
            Operation::new("openapi", "Show this document"),
            openapi,
        )
        .post(
            "/v1/findings/{finding}/dismiss",
            act(
                "dismiss",
                "Stop notifications about a finding, for good or until a day",
            ),
            decisions::dismiss,
        )
        .post(
            "/v1/findings/{finding}/snooze",
            act("snooze", "Stop notifications about a finding until a day"),
            decisions::snooze,
        )
        .post(
            "/v1/findings/{finding}/reopen",
            act("reopen", "Withdraw a decision about a finding"),
            decisions::reopen,
        )
        .post(
            "/v1/pages/link",
            Operation::new("page_link", "Make a link to the web pages for the caller")
                .description(
                    "The link must be opened within 15 minutes. It gives a browser access to the \
                     pages for 12 hours, as this caller. Without a secret for it, the path does \
                     not exist.",
                )
                .errors(&[400, 404]),
            page_link::page_link,
        )
        .post(
            "/v1/slack/actions",
            Operation::new("slack_actions", "Carry out the action of a button in Slack").description(
                "Only Slack calls it. The signature is the authorization; without a signing secret \
                 the path does not exist.",
            ),
            slack::actions,
        )
}

#[cfg(test)]
mod tests {
    use ebb_cloud::fake::{FakeClock, FakeObjects};

    use super::*;

    #[tokio::test]
    async fn a_refused_user_gets_a_problem_in_the_form_of_the_path() {
        let check = async |path: &str, client: Option<u32>, kind: &str, expect: &str| {
            let request = Request::get(path).body(()).expect("a request");
            let server = 1_000;
            let answer = Service::refuse(&request, OtherUser { server, client }).await;
            assert_eq!(answer.status(), StatusCode::FORBIDDEN);
            assert_eq!(answer.headers()[CONTENT_TYPE], kind, "{path}");
            let text = std::str::from_utf8(answer.body()).expect("UTF-8");
            for expect in ["(uid 1000) and root", expect, "as the same user"] {
                assert!(text.contains(expect), "{text}");
            }
        };
        let problem = "application/problem+json";
        check("/v1/steps", Some(1_001), problem, "uid 1001").await;
        check("/data/steps", None, problem, "unknown").await;
        let page = "text/html; charset=utf-8";
        check("/findings", Some(1_001), page, "<h1>No access</h1>").await;
    }

    #[test]
    fn escapes_are_undone_and_what_is_none_stays() {
        let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        let service = Service::new(Arc::new(bucket));
        let check = |text: &str, expect: &str| {
            let uri = format!("/v1/steps/{text}/recommendation?region=a");
            let uri = service.with_one_segment(&uri.parse().expect("a path"));
            let uri = uri.expect("a path with a name");
            let name = uri.path().strip_prefix("/v1/steps/");
            let name = name.and_then(|rest| rest.strip_suffix("/recommendation"));
            let name = name.expect("a name");
            assert!(!name.contains('/'), "{name}");
            assert_eq!(percent_decode_str(name).decode_utf8_lossy(), expect);
            assert_eq!(uri.query(), Some("region=a"));
        };
        check("salmon:quant", "salmon:quant");
        check("a%2Fb%20c", "a/b c");
        check("a/b", "a/b");
        check("%2541", "%41");
        check("100%", "100%");
        check("%+1%zz%c3%a9%", "%+1%zzé%");
        check("%ff", "\u{fffd}");
    }
}
