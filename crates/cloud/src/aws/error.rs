//! Converts SDK errors to port errors, in the same way for every service.

use std::error::Error;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::error_chain::reason;
use crate::ports::{CloudError, bounded};

/// The error of `operation` on `what`.
pub(super) fn cloud_error<E>(
    operation: &str,
    what: &str,
    error: &SdkError<E, HttpResponse>,
) -> CloudError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let operation = operation.to_owned();
    let Some(service) = error.as_service_error() else {
        let message = bounded(&reason(error));
        return CloudError::Failed { operation, message };
    };
    let status = error.raw_response().map(|answer| answer.status().as_u16());
    let status = status.map(|status| format!("HTTP {status} without an error code"));
    let code = service.code().or(status.as_deref());
    let code = code.unwrap_or("no error code");
    let words = service.message().unwrap_or("no message");
    let message = bounded(&format!("{code}: {words}"));
    match kind_of(code) {
        Kind::Denied => CloudError::Denied { operation, message },
        Kind::Missing => CloudError::Missing {
            operation,
            what: what.to_owned(),
        },
        Kind::Conflict => CloudError::Conflict {
            operation,
            what: what.to_owned(),
        },
        Kind::Failed => CloudError::Failed { operation, message },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Denied,
    Missing,
    Conflict,
    Failed,
}

/// Each service has its own code for the same error.
///
/// Source: "Common error types" of the API references of EC2, S3, SQS, Batch,
/// ECS, CloudWatch, Cost Explorer, Secrets Manager and SES.
fn kind_of(code: &str) -> Kind {
    match code {
        "AccessDenied"
        | "AccessDeniedException"
        | "AuthorizationError"
        | "NotAuthorized"
        | "UnauthorizedOperation" => Kind::Denied,
        "AWS.SimpleQueueService.NonExistentQueue"
        | "ClusterNotFoundException"
        | "NoSuchBucket"
        | "NoSuchKey"
        | "NotFound"
        | "QueueDoesNotExist"
        | "ResourceNotFoundException" => Kind::Missing,
        "ConditionalRequestConflict" | "PreconditionFailed" => Kind::Conflict,
        _ => Kind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;
    use aws_smithy_types::error::ErrorMetadata;

    use super::*;

    fn refusal(code: &str) -> SdkError<ErrorMetadata, HttpResponse> {
        let status = StatusCode::try_from(400).expect("a status");
        let service = ErrorMetadata::builder().code(code).message("no").build();
        SdkError::service_error(service, HttpResponse::new(status, SdkBody::empty()))
    }

    #[test]
    fn every_services_word_for_a_refusal_is_known() {
        let check = |code: &str, shown: &str| {
            let error = cloud_error("a:B", "the key", &refusal(code));
            assert_eq!(error.to_string(), shown);
        };
        check(
            "UnauthorizedOperation",
            "a:B was denied: UnauthorizedOperation: no",
        );
        check("NoSuchKey", "a:B: the key does not exist");
        check(
            "PreconditionFailed",
            "a:B: the key was changed by another writer",
        );
        check("Throttling", "a:B failed: Throttling: no");
    }

    #[test]
    fn a_call_that_never_arrived_tells_its_causes() {
        let error: SdkError<ErrorMetadata, HttpResponse> =
            SdkError::timeout_error("connect took 5 s");
        assert_eq!(
            cloud_error("a:B", "", &error).to_string(),
            "a:B failed: request has timed out: connect took 5 s"
        );
    }
}
