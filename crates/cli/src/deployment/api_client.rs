//! Requests to the API of a deployment, and its errors in words.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use ebb_cloud::ports::{Api, ApiAnswer, ApiRequest};
use ebb_model::decision::{Decision, Verb};
use ebb_model::report::Report;
use ebb_report::report_file;
use ebb_telemetry::identity::Region;
use ebb_telemetry::safe_text::one_line;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;

/// The gateway answers at most 6 MB. A server on this machine has the same limit.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// How requests are authorized, for the remedy of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "a client needs the feature")
)]
pub(crate) enum Access {
    /// The server is on this machine.
    Local,
    /// The token of `EBB_API_TOKEN`.
    Token,
    /// Signatures with the credentials of AWS.
    #[cfg(feature = "aws")]
    Signed,
    /// This program was built without signatures.
    #[cfg(not(feature = "aws"))]
    Unsigned,
}

impl Access {
    fn remedy(self) -> &'static str {
        match self {
            Self::Local => {
                "is it the address that `ebb serve` printed? For a tunnel, set EBB_API_TOKEN"
            }
            Self::Token => {
                "the token of EBB_API_TOKEN is expired or has no scope for this; get a new one \
                 from the issuer of the deployment"
            }
            #[cfg(feature = "aws")]
            Self::Signed => {
                "the caller needs execute-api:Invoke on the API; check --profile and --region. An \
                 API with JWT authorization needs a token in EBB_API_TOKEN"
            }
            #[cfg(not(feature = "aws"))]
            Self::Unsigned => {
                "set EBB_API_TOKEN, or build the program with AWS, which signs requests"
            }
        }
    }
}

/// An API, and how it is accessed.
pub(crate) struct ApiClient {
    api: Box<dyn Api>,
    access: Access,
}

/// The fields of a problem (RFC 9457). API Gateway answers with `message` instead.
#[derive(Deserialize)]
struct ProblemBody {
    r#type: Option<String>,
    detail: Option<String>,
    message: Option<String>,
}

impl ProblemBody {
    fn is_no_report(&self) -> bool {
        self.slug() == Some("no-report")
    }

    /// The kind of the problem; `None` if Ebb did not write the answer.
    fn slug(&self) -> Option<&str> {
        self.r#type.as_deref()?.strip_prefix("urn:ebb:problem:")
    }
}

/// `None` if the body is none, such as that of a proxy.
fn problem(answer: &ApiAnswer) -> Option<ProblemBody> {
    serde_json::from_slice(&answer.body).ok()
}

/// Why the API does not answer a request. The values are errors in words.
pub(crate) enum ApiProblem {
    /// The API has no such path; most likely it is of an earlier version.
    Path(anyhow::Error),
    /// Nothing has the name in the path.
    Name(anyhow::Error),
    /// The entry before the page is gone.
    Cursor(anyhow::Error),
    /// The answer is larger than the limit of the gateway.
    TooLarge(anyhow::Error),
    /// Another reason.
    Other(anyhow::Error),
}

impl From<ApiProblem> for anyhow::Error {
    fn from(problem: ApiProblem) -> Self {
        match problem {
            ApiProblem::Path(error) => {
                anyhow!(
                    "{error}\n  the API is of an earlier version, or the address is not that of an \
                     API of Ebb"
                )
            }
            ApiProblem::Name(error)
            | ApiProblem::Cursor(error)
            | ApiProblem::TooLarge(error)
            | ApiProblem::Other(error) => error,
        }
    }
}

/// The answer to a decision.
#[derive(Deserialize)]
struct DecisionBody {
    decision: Decision,
}

/// The answer with a link.
#[derive(Deserialize)]
struct PageLinkBody {
    path: String,
}

impl ApiClient {
    #[cfg_attr(
        not(any(feature = "http", test)),
        expect(dead_code, reason = "a client needs the feature")
    )]
    pub(crate) fn new(api: Box<dyn Api>, access: Access) -> Self {
        Self { api, access }
    }

    /// The newest report.
    pub(crate) async fn newest_report(&self) -> Result<Report> {
        let body = self.get("/v1/report").await?;
        report_file::read(&body).context("failed to read the newest report")
    }

    /// When the newest report was evaluated; `None` before the first. Works also if the whole report
    /// is too large for the API.
    pub(crate) async fn report_time(&self) -> Result<Option<Timestamp>> {
        #[derive(Deserialize)]
        struct ListHead {
            at: Timestamp,
        }
        let path = "/v1/findings?limit=1".to_owned();
        let answer = self.ask(&ApiRequest { path, body: None }).await?;
        match answer.status {
            200 => {
                let head: ListHead = serde_json::from_slice(&answer.body)
                    .context("the answer is not that of an API of Ebb")?;
                Ok(Some(head.at))
            }
            503 if problem(&answer).is_some_and(|problem| problem.is_no_report()) => Ok(None),
            _ => Err(self.refusal(&answer)),
        }
    }

    /// The decisions that are in effect, by the id of the finding.
    pub(crate) async fn decisions(&self) -> Result<BTreeMap<String, Decision>> {
        #[derive(Deserialize)]
        struct Entry {
            finding: String,
            decision: Decision,
            holds: bool,
        }
        #[derive(Deserialize, PartialEq)]
        struct Head {
            schema: String,
        }
        let (entries, _) = self.list::<Entry, Head>("/v1/decisions").await?;
        let entries = entries.into_iter().filter(|one| one.holds);
        Ok(entries.map(|one| (one.finding, one.decision)).collect())
    }

    /// Stores a decision, and returns it.
    pub(crate) async fn decide(
        &self,
        id: &str,
        verb: Verb,
        (reason, until): (&str, Option<Timestamp>),
    ) -> Result<Decision> {
        let verb = match verb {
            Verb::Dismiss => "dismiss",
            Verb::Snooze => "snooze",
        };
        let body = json!({"reason": reason, "until": until});
        self.change(id, verb, body.to_string()).await
    }

    /// The path of a link to the pages, for this caller.
    pub(crate) async fn page_link(&self) -> Result<String> {
        let request = ApiRequest {
            path: "/v1/pages/link".to_owned(),
            body: Some("{}".to_owned()),
        };
        let answer = self.ask(&request).await?;
        match answer.status {
            200 => {
                let link: PageLinkBody = serde_json::from_slice(&answer.body)
                    .context("failed to read the answer of the API")?;
                let is_safe = |c: char| c.is_ascii_alphanumeric() || "/?=._-".contains(c);
                match link.path.starts_with("/open?") && link.path.chars().all(is_safe) {
                    true => Ok(link.path),
                    false => Err(anyhow!("the API answered with a link that is not valid")),
                }
            }
            404 => Err(anyhow!(
                "the API makes no links to pages\n  set pages_secret of the Terraform module; \
                 `ebb serve` needs no link"
            )),
            _ => Err(self.refusal(&answer)),
        }
    }

    /// Withdraws a decision, and returns it.
    pub(crate) async fn reopen(&self, id: &str) -> Result<Decision> {
        self.change(id, "reopen", "{}".to_owned()).await
    }

    async fn change(&self, id: &str, verb: &str, body: String) -> Result<Decision> {
        let request = ApiRequest {
            path: format!("/v1/findings/{}/{verb}", segment(id)),
            body: Some(body),
        };
        let body = self.send(&request).await?;
        let body: DecisionBody =
            serde_json::from_slice(&body).context("failed to read the answer of the API")?;
        Ok(body.decision)
    }

    /// The body of a successful answer.
    pub(crate) async fn get(&self, path: &str) -> Result<Vec<u8>> {
        let path = path.to_owned();
        self.send(&ApiRequest { path, body: None }).await
    }

    /// The body of a successful answer, or the kind of the refusal.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Vec<u8>, ApiProblem> {
        let path = path.to_owned();
        let answer = self.ask(&ApiRequest { path, body: None }).await;
        let answer = answer.map_err(ApiProblem::Other)?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        let error = self.refusal(&answer);
        let problem = problem(&answer);
        let slug = problem.as_ref().and_then(ProblemBody::slug);
        Err(match (answer.status, slug) {
            (404, None | Some("path")) => ApiProblem::Path(error),
            (404, Some("cursor")) => ApiProblem::Cursor(error),
            (404, Some(_)) => ApiProblem::Name(error),
            (_, Some("size")) => ApiProblem::TooLarge(error),
            _ => ApiProblem::Other(error),
        })
    }

    async fn send(&self, request: &ApiRequest) -> Result<Vec<u8>> {
        let answer = self.ask(request).await?;
        match answer.status {
            200 => Ok(answer.body),
            _ => Err(self.refusal(&answer)),
        }
    }

    async fn ask(&self, request: &ApiRequest) -> Result<ApiAnswer> {
        let answer = self.api.send(request, MAX_ANSWER_BYTES).await;
        answer.context("failed to ask the API")
    }

    fn refusal(&self, answer: &ApiAnswer) -> anyhow::Error {
        let status = answer.status;
        let problem_body = problem(answer);
        let has_remedy = problem_body.as_ref().and_then(ProblemBody::slug) == Some("other-user");
        let detail = problem_body.and_then(|body| body.detail.or(body.message));
        let detail = detail.map(|detail| {
            let line = one_line(&detail);
            format!(": {}", line.chars().take(500).collect::<String>())
        });
        let remedy = match status {
            401 | 403 if !has_remedy => format!("\n  {}", self.access.remedy()),
            300..=399 => "\n  give the final address of the API".to_owned(),
            _ => String::new(),
        };
        anyhow!(
            "the API answered HTTP {status}{}{remedy}",
            detail.unwrap_or_default()
        )
    }
}

/// One segment of a path.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// The region in the host name of an API of API Gateway; `None` for a host name of its own.
///
/// Source: "Invoke HTTP APIs", API Gateway developer guide.
#[cfg_attr(
    not(any(feature = "aws", test)),
    expect(dead_code, reason = "signatures need the feature")
)]
pub(crate) fn region_of_gateway(host: Option<&str>) -> Option<Region> {
    let (_, rest) = host?.split_once(".execute-api.")?;
    let (region, domain) = rest.split_once('.')?;
    match domain {
        "amazonaws.com" | "amazonaws.com.cn" => Region::new(region).ok(),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use async_trait::async_trait;
    use ebb_api::page_access::{PageAccess, PagesSecret};
    use ebb_api::service::Service;
    use ebb_cloud::ports::CloudResult;
    use ebb_cloud::store::StoreObjects;
    use http::Request;

    use super::*;

    /// The API in this process.
    struct LocalApi(Service);

    /// A client of the API in this process.
    pub(crate) fn local_api(service: Service) -> ApiClient {
        ApiClient::new(Box::new(LocalApi(service)), Access::Local)
    }

    #[async_trait]
    impl Api for LocalApi {
        async fn send(&self, request: &ApiRequest, _: usize) -> CloudResult<ApiAnswer> {
            let body = request.body.clone().unwrap_or_default();
            let http_request = Request::builder()
                .method(request.method())
                .uri(&request.path)
                .header("content-type", "application/json")
                .body(body.into_bytes().into())
                .expect("a request");
            let answer = self
                .0
                .answer(http_request, Instant::now(), Timestamp::now())
                .await;
            Ok(ApiAnswer {
                status: answer.status().as_u16(),
                body: answer.into_body().to_vec(),
            })
        }
    }

    /// Answers every request with one status and body.
    struct FixedApi(u16, &'static str);

    #[async_trait]
    impl Api for FixedApi {
        async fn send(&self, _: &ApiRequest, _: usize) -> CloudResult<ApiAnswer> {
            Ok(ApiAnswer {
                status: self.0,
                body: self.1.as_bytes().to_vec(),
            })
        }
    }

    #[tokio::test]
    async fn a_refusal_says_what_the_api_said_and_what_to_do() {
        let check = async |status, body, access: Access, expect: &str| {
            let client = ApiClient::new(Box::new(FixedApi(status, body)), access);
            let error = client.newest_report().await.expect_err("it is refused");
            assert!(error.to_string().contains(expect), "{error:#}");
        };
        let gateway = r#"{"message":"Forbidden"}"#;
        check(
            403,
            gateway,
            Access::Token,
            "HTTP 403: Forbidden\n  the token of",
        )
        .await;
        check(
            401,
            "no JSON",
            Access::Local,
            "HTTP 401\n  is it the address",
        )
        .await;
        let large = r#"{"detail":"Read the bucket: ebb --bucket NAME","status":413}"#;
        check(413, large, Access::Local, "ebb --bucket NAME").await;
        check(302, "", Access::Local, "final address").await;
        let other_user = r#"{"detail":"Run it.","type":"urn:ebb:problem:other-user"}"#;
        let client = ApiClient::new(Box::new(FixedApi(403, other_user)), Access::Local);
        let error = client.newest_report().await.expect_err("it is refused");
        assert!(error.to_string().ends_with("HTTP 403: Run it."), "{error}");
        let hostile = r#"{"detail":"\u001b[31mred"}"#;
        check(500, hostile, Access::Local, "HTTP 500: ").await;
        check(200, "{}", Access::Local, "failed to read the newest report").await;
    }

    #[tokio::test]
    async fn a_link_to_the_pages_is_a_path_of_the_api() {
        let secret = PagesSecret::new(&"s".repeat(32)).expect("a secret");
        let objects = Arc::new(StoreObjects::in_memory());
        let pages = PageAccess::WithLink(secret);
        let api = local_api(Service::with_secrets(objects.clone(), None, pages));
        let link = api.page_link().await.expect("a link");
        assert!(link.starts_with("/open?token="), "{link}");
        let check = async |api: ApiClient, expect: &str| {
            let error = api.page_link().await.expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        };
        check(local_api(Service::new(objects)), "set pages_secret").await;
        for path in [
            "@evil.example/open?token=1",
            "/open?token=\\u001b[31m",
            "/open?a b",
        ] {
            let body = format!(r#"{{"path":"{path}"}}"#).leak();
            let api = ApiClient::new(Box::new(FixedApi(200, body)), Access::Local);
            check(api, "not valid").await;
        }
        let refused = ApiClient::new(Box::new(FixedApi(403, "{}")), Access::Token);
        check(refused, "the token of EBB_API_TOKEN").await;
    }

    #[test]
    fn the_region_is_that_of_the_host_name() {
        let check = |host: &str, expect: Option<&str>| {
            let region = region_of_gateway(Some(host));
            assert_eq!(region.as_ref().map(Region::as_str), expect, "{host}");
        };
        let host = "a1b2.execute-api.eu-central-1.amazonaws.com";
        check(host, Some("eu-central-1"));
        let china = "a1.execute-api.cn-north-1.amazonaws.com.cn";
        check(china, Some("cn-north-1"));
        check("a1.execute-api.eu-central-1.evil.com", None);
        check("ebb.example.com", None);
    }
}
