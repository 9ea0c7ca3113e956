//! Object stores by URL: a folder, S3 or what speaks like it, Google Cloud Storage. From
//! here come the tables' store, the port [`Objects`](crate::ports::Objects) and a queue.

mod bucket;
mod folder;
mod objects;
mod queue;

pub use objects::StoreObjects;
pub use queue::ObjectQueue;

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use thiserror::Error;
use url::Url;

/// Why a place cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not a URL.
    #[error("'{text}' is no URL such as file:///srv/ebb, s3://bucket/ebb or gs://bucket/ebb")]
    NotAUrl {
        /// What was given.
        text: String,
        /// Why.
        source: url::ParseError,
    },
    /// A URL that names no place.
    #[error("'{url}' names no {what}")]
    Incomplete {
        /// What was given.
        url: String,
        /// What is missing.
        what: &'static str,
    },
    /// A scheme that names no store known here.
    #[error("'{url}' does not begin with file://, s3:// or gs://")]
    UnknownScheme {
        /// What was given.
        url: String,
    },
    /// The folder cannot be made.
    #[error("folder {path}")]
    Folder {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The client of the object store cannot be made.
    #[error("client for '{url}'")]
    Client {
        /// What was given.
        url: String,
        /// Why.
        source: Box<object_store::Error>,
    },
}

/// A store whose root is the root of `base`'s file system or bucket.
#[derive(Debug, Clone)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// Where in it; the path ends with a slash.
    pub base: Url,
}

/// Opens `file:///…` or the path of a folder, `s3://bucket/path` or `gs://bucket/path`; a folder is made, else
/// nothing is read yet. Must be called on a Tokio runtime that outlives the store.
///
/// For S3 region, endpoint and credentials come from the environment as for the AWS SDKs
/// (`AWS_REGION`, `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID` and so
/// on), else from the container or the instance; for Google from
/// `GOOGLE_APPLICATION_CREDENTIALS` or `GOOGLE_SERVICE_ACCOUNT`, else from the instance.
///
/// # Errors
/// Names what is wrong with the URL, or why there is no such place.
pub fn open(text: &str) -> Result<Place, StoreError> {
    // A folder may be named by its path, too.
    let parsed = Url::from_directory_path(text).or_else(|()| Url::parse(text));
    let mut base = parsed.map_err(|source| StoreError::NotAUrl {
        text: text.to_owned(),
        source,
    })?;
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    let store: Arc<dyn ObjectStore> = match base.scheme() {
        "file" => folder(&base)?,
        "s3" => bucket::s3(&base)?,
        "gs" => bucket::google(&base)?,
        _ => return Err(StoreError::UnknownScheme { url: base.into() }),
    };
    Ok(Place { store, base })
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
