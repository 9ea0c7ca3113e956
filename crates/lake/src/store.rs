//! From a URL to an object store: a local folder, or a bucket where that is
//! built in. Nothing here knows of tables.

#[cfg(feature = "s3")]
mod s3;

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use thiserror::Error;
use url::Url;

/// Why a lake's place cannot be opened.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not a URL.
    #[error("'{text}' is no URL such as file:///srv/lake or s3://bucket/lake")]
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
    /// A scheme that this program was built without.
    #[error("'{url}' has a scheme that this program was built without")]
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
pub(crate) struct Place {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Where the tables stand; its path ends with a slash.
    pub(crate) base: Url,
}

pub(crate) fn open(text: &str) -> Result<Place, StoreError> {
    let mut base = Url::parse(text).map_err(|source| StoreError::NotAUrl {
        text: text.to_owned(),
        source,
    })?;
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    let store: Arc<dyn ObjectStore> = match base.scheme() {
        "file" => folder(&base)?,
        #[cfg(feature = "s3")]
        "s3" => s3::bucket(&base)?,
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
