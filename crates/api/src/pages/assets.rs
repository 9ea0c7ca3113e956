//! Script and styles of the pages, compiled into the program. `make web` builds them. Their
//! addresses contain a hash of their content, so a browser may keep them for ever.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use serde::Deserialize;

use crate::extract::Name;
use crate::problem::Problem;

const SCRIPT: &str = include_str!("assets/app.js");
const STYLE: &str = include_str!("assets/app.css");

/// A file that pages load.
struct Asset {
    name: String,
    content_type: &'static str,
    content: &'static str,
}

static ASSETS: LazyLock<[Asset; 2]> = LazyLock::new(|| {
    let asset = |ending: &str, content_type, content: &'static str| {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        Asset {
            name: format!("app-{:016x}.{ending}", hasher.finish()),
            content_type,
            content,
        }
    };
    [
        asset("js", "text/javascript; charset=utf-8", SCRIPT),
        asset("css", "text/css; charset=utf-8", STYLE),
    ]
});

/// The name of an asset in its path.
#[derive(Deserialize)]
pub(crate) struct AssetName(String);

/// Names of the script and of the styles.
pub(crate) fn names() -> [&'static str; 2] {
    [&ASSETS[0].name, &ASSETS[1].name]
}

/// One asset.
pub(crate) async fn asset(Name(AssetName(name)): Name<AssetName>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return Problem::Path(format!("/assets/{name}")).into_response();
    };
    let headers = [
        (CONTENT_TYPE, asset.content_type.to_owned()),
        (
            CACHE_CONTROL,
            "public, max-age=31536000, immutable".to_owned(),
        ),
        (ETAG, format!("\"{}\"", asset.name)),
    ];
    (headers, asset.content).into_response()
}
