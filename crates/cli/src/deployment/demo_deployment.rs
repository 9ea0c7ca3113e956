//! The demo account as a sweep stores it, for tests.

use std::sync::Arc;

use ebb_analysis::evaluate::Details;
use ebb_api::service::Service;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_model::report::Report;
use ebb_sweep::publish_details;

use super::api_client::tests::local_api;
use super::opened::{Deployment, StoredDeployment};

/// The bucket, and what was written to it.
pub(crate) struct DemoDeployment {
    pub(crate) bucket: FakeObjects,
    pub(crate) report: Report,
    pub(crate) details: Details,
}

impl DemoDeployment {
    /// A deployment whose sweep stores single tasks and explanations.
    pub(crate) async fn new() -> Self {
        let demo = Self::of_earlier_version();
        let written = publish_details::write(&demo.bucket, &demo.details).await;
        written.expect("nothing fails");
        demo
    }

    /// A deployment whose sweep stores only the report.
    pub(crate) fn of_earlier_version() -> Self {
        // The demo has a runtime of its own.
        let demo = std::thread::spawn(|| crate::tune::of_demo(0).expect("it is built in"));
        let (report, details) = demo.join().expect("it ends");
        let bucket = FakeObjects::new(FakeClock::at(report.at));
        bucket.insert(LATEST_JSON, serde_json::to_vec(&report).expect("JSON"));
        Self {
            bucket,
            report,
            details,
        }
    }

    /// The bucket, and the API that reads it.
    pub(crate) fn both(&self) -> [Deployment; 2] {
        let objects = Arc::new(self.bucket.clone());
        let stored = StoredDeployment {
            objects: objects.clone(),
            who: "ana".to_owned(),
        };
        let api = local_api(Service::new(objects));
        [Deployment::Stored(stored), Deployment::Api(api)]
    }
}
