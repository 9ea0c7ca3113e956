//! Stores the Batch jobs that sweeps remember. The text is `ebb.jobs/1` and one job in JSON a line.

use std::io::{self, BufRead, BufReader, Read, Write};

use ebb_cloud::error_chain::reason;
use ebb_cloud::ports::{CloudError, Objects, PutOptions};
use ebb_model::inventory::batch::job::Job;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::stable_hash::stable_hash;

const KEY: &str = "state/v1/jobs.zst";

const SCHEMA: &str = "ebb.jobs/1";

const ZSTD_LEVEL: i32 = 3;

/// As many jobs as a sweep remembers take about 10 MB.
const MAX_PACKED_BYTES: u64 = 64 << 20;

/// Limit on the text, which is never in memory as a whole.
const MAX_BYTES: u64 = 512 << 20;

/// The jobs of earlier sweeps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredJobs {
    pub(crate) jobs: Vec<Job>,
    /// A gap if they could not be read.
    pub(crate) gap: Option<Gap>,
    object: ObjectState,
}

/// The object, so that a sweep writes it only when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectState {
    Missing,
    /// With the hash of its bytes.
    Known(u64),
    /// The bucket did not respond. A write would replace jobs that the next sweep may read.
    Unknown,
}

impl StoredJobs {
    pub(crate) async fn load(objects: &dyn Objects) -> Self {
        let object = match objects.get(KEY, MAX_PACKED_BYTES).await {
            Ok(object) => object,
            Err(CloudError::Missing { .. }) => {
                return Self {
                    jobs: Vec::new(),
                    gap: None,
                    object: ObjectState::Missing,
                };
            }
            Err(error) => return Self::unread(&reason(&error), ObjectState::Unknown),
        };
        let known = ObjectState::Known(hash(&object.bytes));
        match unpack(&object.bytes) {
            Ok(jobs) => Self {
                jobs,
                gap: None,
                object: known,
            },
            Err(why) => Self::unread(&why, known),
        }
    }

    fn unread(why: &str, object: ObjectState) -> Self {
        let why = format!("{why}; tasks whose jobs ended more than a day ago have no job");
        Self {
            jobs: Vec::new(),
            gap: Some(Gap::new("names of Batch jobs", why)),
            object,
        }
    }

    /// Stores these jobs instead. After a failure the next sweep has all but those that meanwhile
    /// left the inventory.
    pub(crate) async fn replace(&self, objects: &dyn Objects, jobs: &[Job]) {
        let is_needed = match self.object {
            ObjectState::Missing => !jobs.is_empty(),
            ObjectState::Known(_) => true,
            ObjectState::Unknown => false,
        };
        if !is_needed {
            return;
        }
        if let Err(why) = self.write(objects, jobs).await {
            tracing::warn!(why, "failed to store the Batch jobs of finished tasks");
        }
    }

    async fn write(&self, objects: &dyn Objects, jobs: &[Job]) -> Result<(), String> {
        let packed = pack(jobs).map_err(|error| reason(&error))?;
        if self.object == ObjectState::Known(hash(&packed)) {
            return Ok(());
        }
        if packed.len() as u64 > MAX_PACKED_BYTES {
            return Err(format!("more than {MAX_PACKED_BYTES} bytes"));
        }
        let put = objects.put(KEY, packed, PutOptions::default()).await;
        put.map(|_| ()).map_err(|error| reason(&error))
    }
}

fn hash(bytes: &[u8]) -> u64 {
    stable_hash(bytes.iter().copied())
}

fn pack(jobs: &[Job]) -> io::Result<Vec<u8>> {
    let mut packer = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    packer.write_all(SCHEMA.as_bytes())?;
    let mut line = Vec::new();
    for job in jobs {
        line.clear();
        line.push(b'\n');
        serde_json::to_writer(&mut line, job)?;
        packer.write_all(&line)?;
    }
    packer.finish()
}

/// The error is a text.
fn unpack(packed: &[u8]) -> Result<Vec<Job>, String> {
    let plain = zstd::stream::read::Decoder::new(packed).map_err(|error| reason(&error))?;
    let mut lines = BufReader::new(plain.take(MAX_BYTES)).split(b'\n');
    let first = lines.next().and_then(Result::ok);
    if first.as_deref() != Some(SCHEMA.as_bytes()) {
        return Err(format!("the schema is not {SCHEMA}"));
    }
    let mut jobs = Vec::new();
    for line in lines {
        let line = line.map_err(|error| reason(&error))?;
        let job = serde_json::from_slice(&line).map_err(|error| reason(&error))?;
        jobs.push(job);
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use ebb_cloud::failing::{Failing, Fault};
    use ebb_cloud::fake::clock::FakeClock;
    use ebb_cloud::fake::objects::FakeObjects;
    use ebb_model::inventory::batch::job::{JobId, JobStatus};
    use ebb_telemetry::identity::Region;
    use jiff::Timestamp;

    use super::*;

    fn bucket() -> FakeObjects {
        FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH))
    }

    fn job(id: &str) -> Job {
        let id = JobId::new(id).expect("an id");
        let region = Region::new("us-east-1").expect("a region");
        Job {
            stopped_at: Some(Timestamp::UNIX_EPOCH),
            tags: [("ebb:run".to_owned(), "a\nb".to_owned())].into(),
            ..Job::new(id, "align", "q", region, JobStatus::Succeeded)
        }
    }

    #[tokio::test]
    async fn jobs_are_read_as_they_were_stored_and_written_only_when_they_change() {
        let bucket = bucket();
        let stored = StoredJobs::load(&bucket).await;
        stored.replace(&bucket, &[]).await;
        assert!(bucket.keys().is_empty(), "no job is remembered");
        let jobs = [job("b"), job("a")];
        stored.replace(&bucket, &jobs).await;
        let stored = StoredJobs::load(&bucket).await;
        assert_eq!((&stored.jobs[..], &stored.gap), (&jobs[..], &None));
        let calls = Fault::never();
        let counted = Failing::new(bucket.clone(), &calls);
        stored.replace(&counted, &jobs).await;
        assert_eq!(calls.calls(), [""; 0]);
        stored.replace(&counted, &jobs[..1]).await;
        assert_eq!(StoredJobs::load(&bucket).await.jobs, jobs[..1]);
    }

    #[tokio::test]
    async fn jobs_that_a_bucket_does_not_return_are_a_gap_and_stay() {
        let bucket = bucket();
        let stored = StoredJobs::load(&bucket).await;
        stored.replace(&bucket, &[job("a")]).await;
        let down = Failing::new(bucket.clone(), &Fault::always("objects.get"));
        let unread = StoredJobs::load(&down).await;
        assert!(unread.gap.is_some() && unread.jobs.is_empty(), "{unread:?}");
        unread.replace(&bucket, &[]).await;
        assert_eq!(StoredJobs::load(&bucket).await.jobs, [job("a")]);
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_decoded_is_a_gap_until_it_is_replaced() {
        let good = pack(&[job("a")]).expect("it packs");
        let other = zstd::bulk::compress(b"ebb.jobs/2\n{}", 1).expect("it packs");
        let no_job = zstd::bulk::compress(b"ebb.jobs/1\n{}", 1).expect("it packs");
        let cut = good[..good.len() / 2].to_vec();
        for bytes in [b"no zstd".to_vec(), other, no_job, cut] {
            let bucket = bucket();
            bucket.insert(KEY, bytes);
            let unread = StoredJobs::load(&bucket).await;
            assert!(unread.gap.is_some() && unread.jobs.is_empty(), "{unread:?}");
            unread.replace(&bucket, &[job("b")]).await;
            let stored = StoredJobs::load(&bucket).await;
            assert_eq!((stored.jobs, stored.gap), (vec![job("b")], None));
        }
    }
}
