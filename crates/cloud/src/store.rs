//! Object stores by URL: a directory, S3 or a compatible store, or Google Cloud Storage. They
//! provide the store of the tables, the port [`Objects`](crate::ports::Objects) and a queue.

mod beneath;
#[cfg(feature = "buckets")]
mod bucket;
mod folder;
pub mod objects;
pub mod queue;
#[cfg(feature = "cost-exports")]
pub(crate) mod ranges;

pub use beneath::open_beneath;
pub use objects::StoreObjects;
pub use queue::ObjectQueue;

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use thiserror::Error;
use url::Url;

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The text is not a URL.
    #[error("'{text}' is not a URL such as file:///srv/ebb, s3://bucket/ebb or gs://bucket/ebb")]
    NotAUrl {
        /// The text.
        text: String,
        /// The cause.
        source: url::ParseError,
    },
    /// The URL is incomplete.
    #[error("'{url}' has no {what}")]
    Incomplete {
        /// The URL.
        url: String,
        /// The missing part.
        what: &'static str,
    },
    /// The URL of a bucket has an unsupported part. The error contains nothing of the URL, which
    /// may contain a password.
    #[error("the URL of a bucket must be s3://bucket/path or gs://bucket/path; remove the {part}")]
    Superfluous {
        /// The part to remove.
        part: &'static str,
    },
    /// The S3 endpoint in the environment is not valid.
    #[error("invalid AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL")]
    Endpoint {
        /// The cause.
        source: crate::endpoint::BadEndpoint,
    },
    /// The scheme of the URL is unknown.
    #[error("'{url}' does not begin with file://, s3:// or gs://")]
    UnknownScheme {
        /// The URL.
        url: String,
    },
    /// The directory cannot be created.
    #[error("failed to open the folder {path}")]
    Folder {
        /// The directory.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The client of the object store cannot be created.
    #[error("failed to create a client for '{url}'")]
    Client {
        /// The URL.
        url: String,
        /// The cause.
        source: Box<object_store::Error>,
    },
}

/// A store whose root is the root of the file system or bucket of `base`.
#[derive(Debug, Clone)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The location in the store; the path ends with a slash.
    pub base: Url,
}

/// Opens `file:///…` or the path of a directory, `s3://bucket/path` or `gs://bucket/path`. A
/// directory is created if it is missing; otherwise nothing is read yet. Must be called on a Tokio
/// runtime that outlives the store.
///
/// For S3, region, endpoint and credentials come from the environment as for the AWS SDKs
/// (`AWS_REGION`, `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID` and others), or
/// else from the container or the instance. For Google, credentials come from
/// `GOOGLE_APPLICATION_CREDENTIALS` or `GOOGLE_SERVICE_ACCOUNT`, or else from the instance.
///
/// # Errors
/// If the URL is not valid, or the store cannot be opened.
pub fn open(text: &str) -> Result<Place, StoreError> {
    // A directory can also be given as a path.
    let parsed = Url::from_directory_path(text).or_else(|()| Url::parse(text));
    let mut base = parsed.map_err(|source| StoreError::NotAUrl {
        text: text.to_owned(),
        source,
    })?;
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    if base.scheme() != "file" {
        check_bucket_url(&base)?;
    }
    let store: Arc<dyn ObjectStore> = match base.scheme() {
        "file" => folder(&base)?,
        #[cfg(feature = "buckets")]
        "s3" => bucket::s3(&base)?,
        #[cfg(feature = "buckets")]
        "gs" => bucket::google(&base)?,
        _ => return Err(StoreError::UnknownScheme { url: base.into() }),
    };
    Ok(Place { store, base })
}

/// Refuses unsupported parts of a bucket URL. Credentials come from the environment.
fn check_bucket_url(base: &Url) -> Result<(), StoreError> {
    let parts = [
        ("user name", !base.username().is_empty()),
        ("password", base.password().is_some()),
        ("port", base.port().is_some()),
        ("query", base.query().is_some()),
        ("fragment", base.fragment().is_some()),
    ];
    match parts.iter().find(|(_, is_there)| *is_there) {
        Some((part, _)) => Err(StoreError::Superfluous { part }),
        None => Ok(()),
    }
}

fn folder(base: &Url) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let path = base.to_file_path().map_err(|()| StoreError::Incomplete {
        url: base.to_string(),
        what: "absolute path",
    })?;
    std::fs::create_dir_all(&path).map_err(|source| StoreError::Folder {
        path: path.display().to_string(),
        source,
    })?;
    Ok(Arc::new(LocalFileSystem::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_bucket_has_a_bucket_and_a_path_only() {
        let check = |text: &str, expect: Option<&str>| {
            let url = Url::parse(text).expect(text);
            let error = check_bucket_url(&url).err().map(|error| error.to_string());
            let removed = error
                .as_deref()
                .map(|e| e.rsplit("remove the ").next().unwrap_or(e));
            assert_eq!(removed, expect, "{text}");
            assert!(!error.unwrap_or_default().contains("hush"), "{text}");
        };
        check("s3://bucket/path", None);
        check("gs://bucket", None);
        check("s3://hush@bucket/", Some("user name"));
        check("s3://:hush@bucket/", Some("password"));
        check("s3://bucket:90/", Some("port"));
        check("s3://bucket/?hush", Some("query"));
        check("gs://bucket/#hush", Some("fragment"));
    }
}
