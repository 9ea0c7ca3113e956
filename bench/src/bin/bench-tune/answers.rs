//! The router over a report at hand.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_api::service::Service;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_model::report::Report;
use http::Request;
use jiff::Timestamp;

use crate::made_up::{STEPS, target};
use crate::{line, times};

pub(crate) const P50: Duration = Duration::from_millis(5);
pub(crate) const P99: Duration = Duration::from_millis(20);

pub(crate) fn measure(report: &Report) {
    let bucket = FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH));
    bucket.insert(
        LATEST_JSON,
        serde_json::to_vec(report).expect("plain values"),
    );
    let (service, begin) = (Service::new(Arc::new(bucket)), Instant::now());
    let spread = times(4_000, |n| {
        let request = Request::get(target(n)).body(Vec::new().into());
        let request = request.expect("a request");
        let answered = service.answer(request, begin, Timestamp::UNIX_EPOCH);
        let answered = futures::executor::block_on(answered);
        let status = answered.status().as_u16();
        assert_eq!(status, 200, "{}: {:?}", target(n), answered.body());
        black_box(answered);
    });
    let what = format!("router over {STEPS} profiles, median");
    line(&what, spread.percentile(50), Some(P50));
    line("  99th percentile", spread.percentile(99), Some(P99));
}
