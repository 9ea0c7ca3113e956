//! The API of a deployment over HTTP: unsigned, with a bearer token, or with a signature of AWS. A
//! function of Lambda is invoked in the same way.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_http_client::Connector;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

use crate::endpoint::Endpoint;
use crate::error_chain::reason;
use crate::http;
use crate::ports::{Api, ApiAnswer, ApiRequest, CloudError, CloudResult, bounded};

/// Time limit of a request with its answer. API Gateway answers within 30 s, and a report of 4 MB
/// may take as long on a slow line.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How requests are authorized.
pub enum Authorization {
    /// Not at all: the server is on this machine, or accepts every request.
    Unsigned,
    /// By a token, for an authorizer of JSON Web Tokens.
    Bearer(String),
    /// By AWS Signature Version 4.
    #[cfg(feature = "http-api-signed")]
    Signed(crate::aws::RequestSigner),
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsigned => "Unsigned",
            Self::Bearer(_) => "Bearer",
            #[cfg(feature = "http-api-signed")]
            Self::Signed(_) => "Signed",
        })
    }
}

/// The API at one address.
#[derive(Debug)]
pub struct HttpApi {
    connector: Connector,
    address: Endpoint,
    authorization: Authorization,
}

impl HttpApi {
    /// The API at an address without a path.
    pub fn new(address: Endpoint, authorization: Authorization) -> Self {
        Self {
            connector: http::connector(),
            address,
            authorization,
        }
    }

    fn request(&self, request: &ApiRequest) -> Result<HttpRequest, String> {
        let url = format!(
            "{}{}",
            self.address.as_str().trim_end_matches('/'),
            request.path
        );
        let body = request.body.as_deref().unwrap_or_default();
        let mut built = HttpRequest::new(SdkBody::from(body));
        let set = built.set_method(request.method());
        set.map_err(|error| reason(&error))?;
        built.set_uri(url).map_err(|error| reason(&error))?;
        let mut headers = vec![("accept", "application/json".to_owned())];
        if request.body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        match &self.authorization {
            Authorization::Unsigned => {}
            Authorization::Bearer(token) => {
                headers.push(("authorization", format!("Bearer {token}")));
            }
            #[cfg(feature = "http-api-signed")]
            Authorization::Signed(signer) => {
                headers.extend(signer.sign(request.method(), built.uri(), body)?);
            }
        }
        for (name, value) in headers {
            let put = built.headers_mut().try_insert(name, value);
            // The error would contain the value, which may be a token.
            put.map_err(|_| format!("the value of the header {name} is not valid"))?;
        }
        Ok(built)
    }

    fn failed(&self, request: &ApiRequest, words: &str) -> CloudError {
        CloudError::Failed {
            operation: format!("{} {}", request.method(), bounded(&request.path)),
            message: bounded(words),
        }
    }
}

#[async_trait]
impl Api for HttpApi {
    async fn send(&self, request: &ApiRequest, max_bytes: usize) -> CloudResult<ApiAnswer> {
        let talk = async {
            let built = self.request(request)?;
            let answer = self.connector.call(built).await;
            let answer = answer.map_err(|error| reason(&error))?;
            let status = answer.status().as_u16();
            let body = whole_body(answer, max_bytes).await?;
            Ok(ApiAnswer { status, body })
        };
        let seconds = TIMEOUT.as_secs();
        let late = |_| format!("timed out waiting for a response after {seconds} s");
        let done = tokio::time::timeout(TIMEOUT, talk).await.map_err(late);
        done.and_then(|answered| answered)
            .map_err(|words: String| self.failed(request, &words))
    }
}

async fn whole_body(answer: HttpResponse, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut body = ByteStream::new(answer.into_body());
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| reason(&error))?);
        if bytes.len() > max_bytes {
            return Err(format!("the response has more than {max_bytes} bytes"));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request with `answer`, and returns its head.
    async fn serve(listener: TcpListener, answer: &'static str) -> String {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        let mut piece = [0; 4_096];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let n = stream.read(&mut piece).await.expect("a request");
            assert!(n > 0, "incomplete request");
            head.extend_from_slice(&piece[..n]);
        }
        let sent = stream.write_all(answer.as_bytes()).await;
        sent.expect("the answer is sent");
        String::from_utf8(head).expect("text")
    }

    async fn ask(
        authorization: Authorization,
        request: &ApiRequest,
        answer: &'static str,
    ) -> (String, CloudResult<ApiAnswer>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let address = Endpoint::parse(&format!("http://{address}/")).expect("loopback");
        let api = HttpApi::new(address, authorization);
        tokio::join!(serve(listener, answer), api.send(request, 8))
    }

    #[tokio::test]
    async fn a_request_has_its_method_and_token_and_an_answer_has_a_limit() {
        let get = ApiRequest {
            path: "/v1/report".to_owned(),
            body: None,
        };
        let post = ApiRequest {
            path: "/v1/findings/a%2Fb/reopen".to_owned(),
            body: Some("{}".to_owned()),
        };
        let token = || Authorization::Bearer("t0ken".to_owned());
        let refused = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\n{}";
        let (head, answer) = ask(token(), &get, refused).await;
        assert!(head.starts_with("GET /v1/report HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("authorization: Bearer t0ken\r\n"), "{head}");
        let answer = answer.expect("an error status is an answer");
        assert_eq!((answer.status, &*answer.body), (403, &b"{}"[..]));

        let long = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789";
        let (head, answer) = ask(Authorization::Unsigned, &post, long).await;
        assert!(
            head.starts_with("POST /v1/findings/a%2Fb/reopen HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(!head.contains("authorization"), "{head}");
        let error = answer.expect_err("too long").to_string();
        assert!(error.contains("more than 8 bytes"), "{error}");

        let bad = Authorization::Bearer("a\nb".to_owned());
        let api = HttpApi::new(
            Endpoint::parse("http://127.0.0.1:1").expect("loopback"),
            bad,
        );
        let error = api.send(&get, 8).await.expect_err("no header").to_string();
        assert!(error.contains("header authorization"), "{error}");
        assert!(!error.contains("a b"), "{error}");
    }
}
