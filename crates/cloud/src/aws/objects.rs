//! A bucket in S3.

use std::error::Error;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Delete, Object as Entry, ObjectIdentifier};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::service_config::ServiceConfigKey;

use super::config::AwsConfig;
use super::error::cloud_error;
use super::time::timestamp;
use crate::permissions::{DELETE_OBJECT, GET_OBJECT, LIST_BUCKET, PUT_OBJECT};
use crate::ports::{
    CloudError, CloudResult, Etag, Listed, Object, Objects, PutIf, PutOptions, bounded, too_large,
};

/// Maximum number of objects in one list or delete call.
const PAGE: usize = 1_000;

/// One bucket.
#[derive(Debug, Clone)]
pub struct AwsObjects {
    client: Client,
    bucket: String,
}

impl AwsObjects {
    /// The bucket with this name, in the region of `config`.
    pub fn new(config: &AwsConfig, bucket: impl Into<String>) -> Self {
        let plain = Builder::from(&config.sdk);
        let settings = if has_own_endpoint(config) {
            plain.force_path_style(true)
        } else {
            plain
        };
        Self {
            client: Client::from_conf(settings.build()),
            bucket: bucket.into(),
        }
    }

    /// The error of an operation on a key; names the bucket if the bucket does not exist.
    fn error<E>(&self, operation: &str, key: &str, error: &SdkError<E, HttpResponse>) -> CloudError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        match error.code() {
            Some("NoSuchBucket") => {
                cloud_error(operation, &format!("bucket {}", self.bucket), error)
            }
            _ => cloud_error(operation, key, error),
        }
    }

    async fn delete_page(&self, keys: &[String]) -> CloudResult<Vec<String>> {
        let ids = keys.iter().map(|key| {
            ObjectIdentifier::builder()
                .key(key)
                .build()
                .expect("the key is set")
        });
        let all = Delete::builder()
            .set_objects(Some(ids.collect()))
            .quiet(true)
            .build()
            .expect("the objects are set");
        let answer = self
            .client
            .delete_objects()
            .bucket(&self.bucket)
            .delete(all)
            .send()
            .await
            .map_err(|e| self.error(DELETE_OBJECT, &self.bucket, &e))?;
        let reasons = answer.errors().iter().map(|e| {
            let key = e.key().unwrap_or("a key");
            format!("{key}: {}", e.code().unwrap_or("no error code"))
        });
        Ok(reasons.collect())
    }
}

/// Stores other than AWS seldom have a host name for each bucket.
fn has_own_endpoint(config: &AwsConfig) -> bool {
    let key = ServiceConfigKey::builder()
        .service_id("S3")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .expect("all fields are set");
    let named = config.sdk.service_config().and_then(|c| c.load_config(key));
    named.is_some() || config.sdk.endpoint_url().is_some()
}

#[async_trait]
impl Objects for AwsObjects {
    async fn get(&self, key: &str, max_bytes: u64) -> CloudResult<Object> {
        let answer = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(key)
            .send()
            .await
            .map_err(|e| self.error(GET_OBJECT, key, &e))?;
        read(key, answer, max_bytes).await
    }

    /// A retried write can conflict with its own first attempt. So a caller must read again before
    /// it assumes another writer.
    async fn put(&self, key: &str, bytes: Vec<u8>, options: PutOptions) -> CloudResult<Etag> {
        let plain = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .set_content_type(options.content_type.map(str::to_owned))
            .set_metadata(Some(options.plain_metadata().into_iter().collect()))
            .body(ByteStream::from(bytes));
        let call = match &options.condition {
            PutIf::Always => plain,
            PutIf::Absent => plain.if_none_match("*"),
            PutIf::Matches(etag) => plain.if_match(&etag.0),
        };
        let answer = call.send().await.map_err(|e| {
            let error = self.error(PUT_OBJECT, key, &e);
            conditional(error, &options.condition)
        })?;
        let etag = answer
            .e_tag
            .ok_or_else(|| incomplete_response(PUT_OBJECT, key, "a version"))?;
        Ok(Etag(etag))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> CloudResult<Vec<Listed>> {
        let mut listed = Vec::new();
        let mut next = None;
        while listed.len() < limit {
            let size = PAGE.min(limit - listed.len());
            let answer = self
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(prefix)
                .max_keys(i32::try_from(size).unwrap_or(i32::MAX))
                .set_start_after(after.map(str::to_owned))
                .set_continuation_token(next)
                .send()
                .await
                .map_err(|e| self.error(LIST_BUCKET, &self.bucket, &e))?;
            for entry in answer.contents() {
                listed.push(entry_of(entry)?);
            }
            next = answer.next_continuation_token;
            if next.is_none() {
                break;
            }
        }
        Ok(listed)
    }

    async fn delete(&self, keys: &[String]) -> CloudResult<()> {
        let mut reasons = Vec::new();
        for page in keys.chunks(PAGE) {
            reasons.extend(self.delete_page(page).await?);
        }
        match reasons.first() {
            None => Ok(()),
            Some(first) => Err(CloudError::Failed {
                operation: DELETE_OBJECT.to_owned(),
                message: bounded(&format!(
                    "failed to delete {} of {} objects, such as {first}",
                    reasons.len(),
                    keys.len()
                )),
            }),
        }
    }
}

/// The body is read in pieces, because the declared length is not trusted.
async fn read(key: &str, answer: GetObjectOutput, max_bytes: u64) -> CloudResult<Object> {
    let last_modified = answer.last_modified.as_ref().and_then(timestamp);
    let modified_at =
        last_modified.ok_or_else(|| incomplete_response(GET_OBJECT, key, "modification time"))?;
    let etag = answer
        .e_tag
        .ok_or_else(|| incomplete_response(GET_OBJECT, key, "a version"))?;
    let mut body = answer.body;
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|e| CloudError::Failed {
            operation: GET_OBJECT.to_owned(),
            message: bounded(&format!("{key}: {e}")),
        })?;
        if (bytes.len() + piece.len()) as u64 > max_bytes {
            return Err(too_large(GET_OBJECT, key, max_bytes));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Object {
        bytes,
        etag: Etag(etag),
        modified_at,
    })
}

fn entry_of(entry: &Entry) -> CloudResult<Listed> {
    let key = entry
        .key()
        .ok_or_else(|| incomplete_response(LIST_BUCKET, "an entry", "a key"))?;
    let size = entry.size().and_then(|size| u64::try_from(size).ok());
    let modified_at = entry.last_modified().and_then(timestamp);
    Ok(Listed {
        key: key.to_owned(),
        bytes: size.ok_or_else(|| incomplete_response(LIST_BUCKET, key, "a size"))?,
        modified_at: modified_at
            .ok_or_else(|| incomplete_response(LIST_BUCKET, key, "modification time"))?,
    })
}

/// If a conditional write expects a version of a deleted object, S3 returns `NoSuchKey`; for the
/// caller this is a conflict.
fn conditional(error: CloudError, condition: &PutIf) -> CloudError {
    match (error, condition) {
        (CloudError::Missing { operation, what }, PutIf::Matches(_)) => {
            CloudError::Conflict { operation, what }
        }
        (other, _) => other,
    }
}

fn incomplete_response(operation: &str, key: &str, what: &str) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: format!("the response for {key} has no {what}"),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::primitives::DateTime;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;
    use aws_smithy_types::error::ErrorMetadata;

    use super::*;

    fn answer(bytes: &'static [u8]) -> GetObjectOutput {
        GetObjectOutput::builder()
            .e_tag("\"1\"")
            .last_modified(DateTime::from_secs(1_700_000_000))
            .content_length(1)
            .body(ByteStream::from_static(bytes))
            .build()
    }

    #[tokio::test]
    async fn an_object_is_read_up_to_the_bound_whatever_it_claims() {
        let object = read("k", answer(b"1234"), 4).await.expect("it fits");
        assert_eq!(object.bytes, b"1234");
        assert_eq!(object.modified_at.as_second(), 1_700_000_000);
        assert!(read("k", answer(b"1234"), 3).await.is_err());
        let silent = GetObjectOutput::builder().build();
        assert!(read("k", silent, 3).await.is_err());
    }

    #[tokio::test]
    async fn a_missing_bucket_is_named_instead_of_the_key() {
        let objects = AwsObjects::new(&AwsConfig::load(None).await, "nope");
        let check = |code: &str, expect: &str| {
            let status = StatusCode::try_from(404).expect("a status");
            let answer = HttpResponse::new(status, SdkBody::empty());
            let service = ErrorMetadata::builder().code(code).build();
            let error = objects.error(GET_OBJECT, "k", &SdkError::service_error(service, answer));
            assert_eq!(error.to_string(), expect);
        };
        check("NoSuchKey", "s3:GetObject: k does not exist");
        check("NoSuchBucket", "s3:GetObject: bucket nope does not exist");
    }

    #[test]
    fn a_version_that_is_gone_is_a_conflict() {
        let gone = || CloudError::Missing {
            operation: PUT_OBJECT.to_owned(),
            what: "k".to_owned(),
        };
        let matches = PutIf::Matches(Etag("\"1\"".to_owned()));
        assert!(matches!(
            conditional(gone(), &matches),
            CloudError::Conflict { .. }
        ));
        assert_eq!(conditional(gone(), &PutIf::Always), gone());
    }
}
