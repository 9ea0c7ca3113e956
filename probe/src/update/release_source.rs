//! Where the manifest and the programs are read from: a folder or a bucket, with the credentials
//! that the probe sends with.

use anyhow::{Context, bail};
use ebb_cloud::ports::Objects;
use ebb_cloud::store::StoreObjects;

use super::manifest::is_file_name;
use crate::config::Config;

/// The folder of the manifest.
pub(super) struct ReleaseSource {
    objects: Box<dyn Objects>,
    /// The part of each key before the name of a file.
    prefix: String,
    /// The name of the manifest.
    pub(super) manifest: String,
}

/// An address as the folder and the name of the manifest.
fn split(address: &str) -> anyhow::Result<(&str, &str)> {
    let parts = address.rsplit_once('/');
    let parts = parts.filter(|(folder, name)| folder.contains("://") && is_file_name(name));
    parts.with_context(|| {
        format!("update.manifest is '{address}', expected an address such as s3://BUCKET/config/ebb-probe-update/manifest.json")
    })
}

impl ReleaseSource {
    pub(super) async fn open(config: &Config, address: &str) -> anyhow::Result<Self> {
        let (folder, manifest) = split(address)?;
        let manifest = manifest.to_owned();
        if let Some(path) = folder.strip_prefix("file://") {
            // A folder of a place is created if it is missing, but this one is only read.
            if !std::path::Path::new(path).is_dir() {
                bail!("failed to find the folder {path}");
            }
        } else if !folder.starts_with("s3://") && !folder.starts_with("gs://") {
            bail!("update.manifest begins with none of s3://, gs:// and file:///");
        }
        #[cfg(feature = "aws")]
        if let (Some(rest), Some(_)) = (folder.strip_prefix("s3://"), &config.queue_url) {
            use ebb_cloud::aws::{AwsConfig, AwsObjects};
            let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
            let aws = AwsConfig::load(config.region.as_ref()).await;
            let slash = if path.is_empty() { "" } else { "/" };
            return Ok(Self {
                objects: Box::new(AwsObjects::new(&aws, bucket)),
                prefix: format!("{path}{slash}"),
                manifest,
            });
        }
        #[cfg(not(feature = "aws"))]
        let _ = config;
        Ok(Self {
            objects: Box::new(StoreObjects::open(folder)?),
            prefix: String::new(),
            manifest,
        })
    }

    /// Reads one file of at most `max_bytes`.
    pub(super) async fn read(&self, file: &str, max_bytes: u64) -> anyhow::Result<Vec<u8>> {
        let key = format!("{}{file}", self.prefix);
        let object = self.objects.get(&key, max_bytes).await;
        let object = object.with_context(|| format!("failed to read {key}"))?;
        Ok(object.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_file_in_a_folder() {
        let check = |address: &str, expect: Option<(&str, &str)>| {
            assert_eq!(split(address).ok(), expect, "{address}");
        };
        let folder = "s3://b/config/ebb-probe-update";
        check(&format!("{folder}/m.json"), Some((folder, "m.json")));
        check("file:///srv/m.json", Some(("file:///srv", "m.json")));
        for refused in [
            "",
            "m.json",
            "s3://b/",
            "s3://",
            "s3://b/..",
            "s3://b/a b",
            "s3://b/m?x=1",
        ] {
            check(refused, None);
        }
    }

    #[tokio::test]
    async fn files_are_read_up_to_their_limit_and_no_folder_is_created() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("m.json"), "12345").expect("written");
        let address = format!("file://{}/m.json", folder.path().display());
        let source = ReleaseSource::open(&Config::default(), &address).await;
        let source = source.expect("it opens");
        assert_eq!(source.read("m.json", 5).await.expect("it fits"), b"12345");
        assert!(source.read("m.json", 4).await.is_err(), "too large");
        assert!(source.read("other", 5).await.is_err(), "missing");
        let missing = folder.path().join("missing");
        let refused = [
            format!("file://{}/m.json", missing.display()),
            "https://example.org/m.json".to_owned(),
        ];
        for address in refused {
            let opened = ReleaseSource::open(&Config::default(), &address).await;
            assert!(opened.is_err(), "{address}");
        }
        assert!(!missing.exists());
    }
}
