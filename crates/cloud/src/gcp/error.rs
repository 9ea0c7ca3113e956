//! Converts Google's errors to port errors.

use google_cloud_gax::client_builder::Error as BuildError;
use google_cloud_gax::error::Error;

use crate::ports::{CloudError, bounded};

const LOG_IN: &str = "log in with `gcloud auth application-default login`, or name a key file by \
     GOOGLE_APPLICATION_CREDENTIALS";

/// `permission` is the IAM name of the call, such as `compute.instances.list`.
pub(super) fn cloud_error(permission: &str, about: &str, error: &Error) -> CloudError {
    let operation = permission.to_owned();
    let words = bounded(&words(error));
    match error.http_status_code() {
        Some(404) => CloudError::Missing {
            operation,
            what: about.to_owned(),
        },
        Some(401) => CloudError::Denied {
            operation,
            message: format!("{words}; {LOG_IN}"),
        },
        Some(403) => CloudError::Denied {
            operation,
            message: words,
        },
        None if error.is_authentication() => CloudError::Denied {
            operation,
            message: format!("{words}; {LOG_IN}"),
        },
        _ => CloudError::Failed {
            operation,
            message: words,
        },
    }
}

/// The error if a client cannot be created, which is probably a lack of credentials.
pub(super) fn not_built(error: &BuildError) -> CloudError {
    CloudError::Denied {
        operation: "Google's client".to_owned(),
        message: format!("{}; {LOG_IN}", bounded(&error.to_string())),
    }
}

/// The message of the service, or else the message of the client with its causes.
fn words(error: &Error) -> String {
    if let Some(status) = error.status() {
        return match error.http_status_code() {
            Some(code) => format!("{code} {}", status.message),
            None => status.message.clone(),
        };
    }
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}
