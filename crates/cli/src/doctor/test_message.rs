//! `ebb doctor deployment --send-test`: a test message to each channel, and the answer of each. The
//! function of a deployment on AWS sends it with its own rights; for `ebb sweep`, this program does.

#[cfg(all(feature = "sweep", feature = "aws"))]
mod sweeper;

use super::check::Check;
use crate::deployment::Target;

const NAME: &str = "test message";

#[cfg(not(feature = "sweep"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
pub(super) async fn checks(_: &Target, _: Option<&str>) -> Vec<Check> {
    let why = "this program was built without the feature `sweep`";
    vec![Check::not_checked(NAME, why)]
}

#[cfg(feature = "sweep")]
pub(super) async fn checks(target: &Target, function: Option<&str>) -> Vec<Check> {
    use crate::deployment::Place;

    let tests = match &target.place.value {
        Place::Api(_) => {
            let why = "only with --bucket or --lake; an API has no right to send";
            return vec![Check::not_checked(NAME, why)];
        }
        Place::Bucket(bucket) => sweeper::send_test(target, bucket, function).await,
        Place::Lake(url) => crate::sweep::send_test(url).await.map_err(|error| {
            let remedy = "load the variables of the sweep first: set -a; . /etc/ebb/sweep.env";
            answers::failed(&error).with_remedy(remedy)
        }),
    };
    match tests {
        Ok(tests) => answers::evaluate(&tests),
        Err(check) => vec![check],
    }
}

/// The checks of the answers. There is no I/O here.
#[cfg(feature = "sweep")]
mod answers {
    use ebb_notify::test_message::{ChannelResult, ChannelTest};
    use ebb_telemetry::safe_text::one_line;

    use super::{Check, NAME};

    /// The first line of an error.
    pub(super) fn failed(error: &anyhow::Error) -> Check {
        let text = format!("{error:#}");
        Check::missing(NAME, one_line(text.lines().next().unwrap_or_default()))
    }

    pub(super) fn evaluate(tests: &[ChannelTest]) -> Vec<Check> {
        if tests.is_empty() {
            let check = Check::limited(NAME, "no channel is configured; reports only");
            return vec![check.with_remedy(
                "set slack_webhook_url or email_to in Terraform, or EBB_SLACK_WEBHOOK_URL \
                     of `ebb sweep`; see docs/src/notifications.md",
            )];
        }
        tests.iter().map(check).collect()
    }

    fn check(test: &ChannelTest) -> Check {
        let detail = |words: &str| one_line(&format!("{}: {words}", test.channel));
        match &test.result {
            ChannelResult::Accepted => Check::ok(NAME, detail("accepted")),
            ChannelResult::NotSent(why) => {
                Check::not_checked(NAME, detail(&format!("not sent: {why}")))
            }
            ChannelResult::Refused(why) => Check::missing(NAME, detail(why))
                .with_remedy("check the address or secret of this channel, then run this again"),
        }
    }
}

#[cfg(all(feature = "sweep", not(feature = "aws")))]
mod sweeper {
    use ebb_notify::test_message::ChannelTest;

    use super::{Check, NAME, Target};

    #[expect(clippy::unused_async, reason = "the same shape as with the feature")]
    pub(super) async fn send_test(
        _: &Target,
        _: &str,
        _: Option<&str>,
    ) -> Result<Vec<ChannelTest>, Check> {
        let why = "this program was built without AWS";
        Err(Check::not_checked(NAME, why))
    }
}

#[cfg(all(test, feature = "sweep"))]
mod tests {
    use ebb_notify::test_message::{ChannelResult, ChannelTest};

    use super::super::check::State;
    use super::*;

    #[test]
    fn the_channel_that_refuses_is_named_with_its_reason() {
        let test = |channel: &str, result| ChannelTest {
            channel: channel.to_owned(),
            result,
        };
        let why = "HTTP 404\nno_team".to_owned();
        let checks = answers::evaluate(&[
            test("email/a@example.org", ChannelResult::Accepted),
            test("slack", ChannelResult::Refused(why)),
            test(
                "webhook/oncall",
                ChannelResult::NotSent("an alert".to_owned()),
            ),
        ]);
        let states: Vec<State> = checks.iter().map(|check| check.state).collect();
        assert_eq!(states, [State::Ok, State::Missing, State::NotChecked]);
        assert!(checks[1].detail.starts_with("slack: HTTP 404"));
        assert!(!checks[1].detail.contains('\n'));
        assert!(checks[1].remedy.is_some());
        let none = answers::evaluate(&[]);
        assert_eq!((none.len(), none[0].state), (1, State::Limited));
    }
}
