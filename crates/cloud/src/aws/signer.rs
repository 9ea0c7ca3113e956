//! Signatures of requests to an API of API Gateway or to Lambda, with the credentials of a
//! configuration.

use std::time::SystemTime;

use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use ebb_telemetry::identity::Region;

use super::AwsConfig;
use crate::error_chain::reason;
use crate::ports::{CloudError, CloudResult, bounded};

/// A service whose requests are signed here, because no SDK is linked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedService {
    /// APIs of API Gateway.
    ApiGateway,
    /// Lambda functions.
    Lambda,
}

impl SignedService {
    /// The name in signatures.
    ///
    /// Sources: "Control access to HTTP APIs with IAM authorization", API Gateway developer guide;
    /// "Actions, resources, and condition keys for AWS Lambda", service authorization reference.
    const fn name(self) -> &'static str {
        match self {
            Self::ApiGateway => "execute-api",
            Self::Lambda => "lambda",
        }
    }
}

/// Signs requests to a service in one region, for a program that ends before its credentials do.
pub struct RequestSigner {
    identity: Identity,
    region: Region,
    service: SignedService,
}

impl RequestSigner {
    /// A signer with the credentials of `config`.
    ///
    /// # Errors
    /// If there are no credentials.
    pub async fn load(
        config: &AwsConfig,
        region: Region,
        service: SignedService,
    ) -> CloudResult<Self> {
        let failed = |message: String| CloudError::Failed {
            operation: "loading of AWS credentials".to_owned(),
            message,
        };
        let provider = config.sdk.credentials_provider();
        let provider = provider.ok_or_else(|| failed("none are configured".to_owned()))?;
        let credentials = provider.provide_credentials().await;
        let credentials = credentials.map_err(|error| failed(bounded(&reason(&error))))?;
        Ok(Self {
            identity: credentials.into(),
            region,
            service,
        })
    }

    /// The headers to add to a request of this method, URL and body; the error is a text.
    pub(crate) fn sign(
        &self,
        method: &str,
        url: &str,
        body: &str,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let scope = (&self.region, self.service, SystemTime::now());
        signed(&self.identity, scope, (method, url, body))
    }
}

fn signed(
    identity: &Identity,
    (region, service, now): (&Region, SignedService, SystemTime),
    (method, url, body): (&str, &str, &str),
) -> Result<Vec<(&'static str, String)>, String> {
    let failed = |error: &dyn std::error::Error| format!("failed to sign: {}", reason(error));
    let parameters = v4::SigningParams::builder()
        .identity(identity)
        .region(region.as_str())
        .name(service.name())
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(&error))?;
    let body = SignableBody::Bytes(body.as_bytes());
    let request = SignableRequest::new(method, url, std::iter::empty(), body);
    let request = request.map_err(|error| failed(&error))?;
    let output = sign(request, &parameters.into()).map_err(|error| failed(&error))?;
    let (headers, _) = output.into_parts().0.into_parts();
    let headers = headers.iter();
    Ok(headers
        .map(|header| (header.name(), header.value().to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use aws_credential_types::Credentials;

    use super::*;

    #[test]
    fn a_request_is_signed_for_the_service_and_the_region() {
        let keys = Credentials::new(
            "AKIDEXAMPLE",
            "secret",
            Some("session".into()),
            None,
            "test",
        );
        let region = Region::new("eu-central-1").expect("a region");
        let now = UNIX_EPOCH + Duration::from_secs(1_790_000_000);
        let url = "https://a1.execute-api.eu-central-1.amazonaws.com/v1/findings/a%2Fb/reopen";
        let sign = |service: SignedService, body: &str| {
            let scope = (&region, service, now);
            let headers = signed(&keys.clone().into(), scope, ("POST", url, body));
            let headers = headers.expect("it is signed");
            let value = |name: &str| {
                let found = headers.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            };
            (value("authorization"), value("x-amz-security-token"))
        };
        let (authorization, session) = sign(SignedService::ApiGateway, "{}");
        assert!(
            authorization.contains("/eu-central-1/execute-api/aws4_request"),
            "{authorization}"
        );
        assert_eq!(session, "session");
        assert_ne!(
            sign(SignedService::ApiGateway, "{\"reason\":\"x\"}").0,
            authorization,
            "the body is signed"
        );
        let (authorization, _) = sign(SignedService::Lambda, "{}");
        assert!(
            authorization.contains("/eu-central-1/lambda/aws4_request"),
            "{authorization}"
        );
    }
}
