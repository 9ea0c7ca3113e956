//! Lists of the API, page by page.

use anyhow::{Context, anyhow};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::api_client::{ApiClient, ApiProblem, segment};

/// Entries of the first page; an answer that is too large is requested again with fewer.
const PAGE_ENTRIES: usize = 250;

/// The most entries of a list: the tasks of a sweep.
const MAX_ENTRIES: usize = 100_000;

/// How often a list is read again because it changed between two pages.
const ATTEMPTS: usize = 3;

/// One page of a list. `H` is the part of the answer that is the same on all pages.
#[derive(Deserialize)]
struct ListPage<T, H> {
    items: Vec<T>,
    next: Option<String>,
    #[serde(flatten)]
    head: H,
}

impl ApiClient {
    /// All entries of a list, and the part of the answers that is the same on all pages.
    pub(crate) async fn list<T, H>(&self, path: &str) -> Result<(Vec<T>, H), ApiProblem>
    where
        T: DeserializeOwned,
        H: DeserializeOwned + PartialEq,
    {
        for _ in 0..ATTEMPTS {
            if let Some(list) = self.unchanged_list(path).await? {
                return Ok(list);
            }
        }
        Err(ApiProblem::Other(anyhow!(
            "the list changed between two pages, {ATTEMPTS} times\n  try again in a minute"
        )))
    }

    /// `None` if the list changed between two pages.
    async fn unchanged_list<T, H>(&self, path: &str) -> Result<Option<(Vec<T>, H)>, ApiProblem>
    where
        T: DeserializeOwned,
        H: DeserializeOwned + PartialEq,
    {
        let (mut limit, mut entries) = (PAGE_ENTRIES, Vec::new());
        let mut before: Option<(String, H)> = None;
        loop {
            let after = before.as_ref().map(|(after, _)| after.as_str());
            let page: ListPage<T, H> = match self.page(path, limit, after).await {
                Ok(page) => page,
                Err(ApiProblem::TooLarge(_)) if limit > 1 => {
                    limit /= 2;
                    continue;
                }
                Err(ApiProblem::Cursor(_)) if after.is_some() => return Ok(None),
                Err(problem) => return Err(problem),
            };
            if before.is_some_and(|(_, head)| head != page.head) {
                return Ok(None);
            }
            let is_empty = page.items.is_empty();
            entries.extend(page.items);
            let Some(next) = page.next else {
                return Ok(Some((entries, page.head)));
            };
            if is_empty || entries.len() > MAX_ENTRIES {
                return Err(ApiProblem::Other(anyhow!(
                    "the list of the API does not end after {} entries",
                    entries.len()
                )));
            }
            before = Some((next, page.head));
        }
    }

    async fn page<T, H>(
        &self,
        path: &str,
        limit: usize,
        after: Option<&str>,
    ) -> Result<ListPage<T, H>, ApiProblem>
    where
        T: DeserializeOwned,
        H: DeserializeOwned,
    {
        let after = after.map(|after| format!("&after={}", segment(after)));
        let path = format!("{path}?limit={limit}{}", after.unwrap_or_default());
        self.read(&path).await
    }

    /// The JSON of an answer.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiProblem> {
        let body = self.try_get(path).await?;
        let value = serde_json::from_slice(&body);
        value
            .context("failed to read the answer of the API")
            .map_err(ApiProblem::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use ebb_cloud::ports::{Api, ApiAnswer, ApiRequest, CloudResult};
    use serde_json::{Value, json};

    use super::*;
    use crate::deployment::api_client::Access;

    /// Answers with these in turn, and records the paths.
    #[derive(Clone)]
    struct ScriptedApi {
        answers: Arc<Mutex<Vec<(u16, Value)>>>,
        paths: Arc<Mutex<Vec<String>>>,
    }

    impl ScriptedApi {
        fn new(answers: &[(u16, Value)]) -> Self {
            Self {
                answers: Arc::new(Mutex::new(answers.to_vec())),
                paths: Arc::default(),
            }
        }
    }

    #[async_trait]
    impl Api for ScriptedApi {
        async fn send(&self, request: &ApiRequest, _: usize) -> CloudResult<ApiAnswer> {
            self.paths
                .lock()
                .expect("no panic")
                .push(request.path.clone());
            let mut answers = self.answers.lock().expect("no panic");
            // The last answer repeats.
            let (status, body) = match answers.len() {
                1 => answers[0].clone(),
                _ => answers.remove(0),
            };
            let body = body.to_string().into_bytes();
            Ok(ApiAnswer { status, body })
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Head {
        at: u32,
    }

    fn page(at: u32, items: &[u32], next: Option<&str>) -> (u16, Value) {
        (200, json!({"at": at, "items": items, "next": next}))
    }

    fn refusal(status: u16, slug: &str) -> (u16, Value) {
        let slug = format!("urn:ebb:problem:{slug}");
        (status, json!({"type": slug, "detail": "no"}))
    }

    #[tokio::test]
    async fn all_pages_are_read_and_a_list_that_changes_is_read_again() {
        let check = async |answers: &[(u16, Value)], expect: Result<&[u32], &str>| {
            let api = Box::new(ScriptedApi::new(answers));
            let client = ApiClient::new(api, Access::Local);
            let list = client.list::<u32, Head>("/v1/x").await;
            match (list, expect) {
                (Ok((list, _)), Ok(expect)) => assert_eq!(list, expect),
                (Err(problem), Err(expect)) => {
                    let error = anyhow::Error::from(problem).to_string();
                    assert!(error.contains(expect), "{error}");
                }
                (Ok((list, _)), Err(expect)) => panic!("{list:?} should be {expect}"),
                (Err(problem), Ok(_)) => panic!("{:#}", anyhow::Error::from(problem)),
            }
        };
        check(&[page(1, &[1, 2], None)], Ok(&[1, 2])).await;
        let two = [page(1, &[1], Some("a/b&c")), page(1, &[2], None)];
        check(&two, Ok(&[1, 2])).await;
        // A sweep ended between the pages.
        let changed = [
            page(1, &[1], Some("a")),
            page(2, &[9], None),
            page(2, &[8, 9], None),
        ];
        check(&changed, Ok(&[8, 9])).await;
        let gone = [
            page(1, &[1], Some("a")),
            refusal(404, "cursor"),
            page(2, &[9], None),
        ];
        check(&gone, Ok(&[9])).await;
        let large = [refusal(400, "size"), page(1, &[1], None)];
        check(&large, Ok(&[1])).await;
        check(&[refusal(400, "size")], Err("HTTP 400: no")).await;
        let endless = [page(1, &[], Some("a"))];
        check(&endless, Err("does not end after 0 entries")).await;
        let often = [page(1, &[1], Some("a")), refusal(404, "cursor")];
        let often = [&often[..], &often, &often].concat();
        check(&often, Err("changed between two pages")).await;
        check(&[refusal(404, "run")], Err("HTTP 404: no")).await;
        check(&[(200, json!({"items": 7}))], Err("failed to read")).await;
    }

    #[tokio::test]
    async fn a_cursor_is_escaped_and_a_page_shrinks() {
        let api = ScriptedApi::new(&[
            refusal(400, "size"),
            page(1, &[1], Some("a/b&c")),
            page(1, &[2], None),
        ]);
        let client = ApiClient::new(Box::new(api.clone()), Access::Local);
        let list = client.list::<u32, Head>("/v1/x").await;
        assert!(list.is_ok_and(|(list, _)| list == [1, 2]));
        let paths = api.paths.lock().expect("no panic").clone();
        assert_eq!(
            paths,
            [
                "/v1/x?limit=250",
                "/v1/x?limit=125",
                "/v1/x?limit=125&after=a%2Fb%26c"
            ]
        );
    }
}
