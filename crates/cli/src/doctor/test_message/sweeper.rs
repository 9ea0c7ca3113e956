//! The sweeper function of a deployment on AWS, which sends the test message with its own rights.

use anyhow::{Context, Result};
use ebb_cloud::aws::{AwsConfig, RequestSigner, SignedService};
use ebb_cloud::endpoint::Endpoint;
use ebb_cloud::http_api::{Authorization, HttpApi};
use ebb_cloud::ports::{Api, ApiAnswer, ApiRequest};
use ebb_notify::test_message::{ChannelTest, REQUEST, TestAnswer};
use ebb_telemetry::identity::Region;
use ebb_telemetry::safe_text::{clip, one_line};
use serde::Deserialize;

use super::{Check, NAME, Target, answers};

/// The answer has one short entry for each channel.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Characters of an unknown answer that are shown.
const SHOWN_CHARS: usize = 200;

/// A function and its region, if they are known.
#[derive(Debug, PartialEq, Eq)]
struct Sweeper {
    name: String,
    region: Option<Region>,
}

pub(super) async fn send_test(
    target: &Target,
    bucket: &str,
    function: Option<&str>,
) -> Result<Vec<ChannelTest>, Check> {
    let Some(sweeper) = sweeper_of(bucket, function) else {
        let why = format!("the name of the bucket {bucket} does not show that of the function");
        let remedy = "add --function NAME (Terraform output `sweeper_function_name`)";
        return Err(Check::missing(NAME, why).with_remedy(remedy));
    };
    let answer = invoke(target, &sweeper).await;
    let answer = answer.map_err(|error| answers::failed(&error))?;
    read(&answer, &sweeper.name)
}

/// The function of a bucket that the Terraform module has named: NAME-ACCOUNT-REGION.
fn sweeper_of(bucket: &str, function: Option<&str>) -> Option<Sweeper> {
    let parts: Vec<&str> = bucket.split('-').collect();
    let is_account = |part: &&str| part.len() == 12 && part.bytes().all(|b| b.is_ascii_digit());
    let account = parts.iter().position(is_account);
    let named = account.filter(|at| *at > 0).and_then(|at| {
        let region = Region::new(parts.get(at + 1..)?.join("-")).ok()?;
        Some((format!("{}-sweeper", parts.get(..at)?.join("-")), region))
    });
    match (function, named) {
        (Some(function), named) => Some(Sweeper {
            name: function.to_owned(),
            region: named.map(|(_, region)| region),
        }),
        (None, Some((name, region))) => Some(Sweeper {
            name,
            region: Some(region),
        }),
        (None, None) => None,
    }
}

async fn invoke(target: &Target, sweeper: &Sweeper) -> Result<ApiAnswer> {
    let profile = target.profile.as_ref().map(|name| name.value.as_str());
    let requested_region = target.region.as_ref().map(|region| region.value.clone());
    let region = requested_region.or_else(|| sweeper.region.clone());
    let config = AwsConfig::load_as(region.as_ref(), profile).await;
    let region = region.or_else(|| config.region());
    let region = region.context("the region of the function is unknown; add --region REGION")?;
    let endpoint = endpoint(&region, |name| std::env::var(name).ok());
    let endpoint = Endpoint::parse(&endpoint).context("invalid address of Lambda")?;
    let signer = RequestSigner::load(&config, region, SignedService::Lambda).await?;
    let api = HttpApi::new(endpoint, Authorization::Signed(signer));
    let request = ApiRequest {
        path: format!("/2015-03-31/functions/{}/invocations", sweeper.name),
        body: Some(REQUEST.to_owned()),
    };
    Ok(api.send(&request, MAX_ANSWER_BYTES).await?)
}

/// Source: "AWS Lambda endpoints and quotas"; the variables are those of the AWS CLI.
fn endpoint(region: &Region, variable: impl Fn(&str) -> Option<String>) -> String {
    let set = |name| variable(name).filter(|value| !value.trim().is_empty());
    let set = set("AWS_ENDPOINT_URL_LAMBDA").or_else(|| set("AWS_ENDPOINT_URL"));
    set.unwrap_or_else(|| {
        let suffix = match region.as_str().starts_with("cn-") {
            true => ".cn",
            false => "",
        };
        format!("https://lambda.{region}.amazonaws.com{suffix}")
    })
}

/// The fields of an error of Lambda or of the function.
#[derive(Deserialize)]
struct FunctionError {
    #[serde(alias = "Message", alias = "message")]
    #[serde(rename = "errorMessage")]
    message: String,
}

/// Source: "Invoke", AWS Lambda API reference.
fn read(answer: &ApiAnswer, function: &str) -> Result<Vec<ChannelTest>, Check> {
    let text = String::from_utf8_lossy(&answer.body);
    let missing = |why: &str| Check::missing(NAME, clip(&one_line(why), SHOWN_CHARS));
    if let (200, Ok(tests)) = (answer.status, serde_json::from_str::<TestAnswer>(&text)) {
        return Ok(tests.channel_tests);
    }
    let error = serde_json::from_str::<FunctionError>(&text);
    let why = error.map_or_else(|_| text.to_string(), |error| error.message);
    Err(match answer.status {
        200 if text.contains("\"folding\"") => {
            missing(&format!("{function} is of an earlier version and made a sweep instead"))
                .with_remedy("apply the module with the packages of this version")
        }
        200 => missing(&format!("{function}: {why}"))
            .with_remedy(format!("aws logs tail /aws/lambda/{function} --since 10m")),
        403 => missing(&why).with_remedy(format!(
            r#"{{"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "arn:aws:lambda:*:*:function:{function}"}}"#
        )),
        404 => missing(&format!("no function {function} in this region")).with_remedy(
            "add --function NAME (Terraform output `sweeper_function_name`) or --region REGION",
        ),
        429 => Check::not_checked(NAME, "a sweep runs now")
            .with_remedy("run this again in a minute"),
        status => missing(&format!("HTTP {status}: {why}")),
    })
}

#[cfg(test)]
mod tests {
    use ebb_notify::test_message::ChannelResult;

    use super::super::super::check::State;
    use super::*;

    #[test]
    fn the_name_of_the_bucket_shows_the_function_and_its_region() {
        let check = |bucket: &str, function, expect: Option<(&str, Option<&str>)>| {
            let found = sweeper_of(bucket, function);
            let region = |name: &str| Region::new(name).expect("a region");
            let expect = expect.map(|(name, named)| Sweeper {
                name: name.to_owned(),
                region: named.map(region),
            });
            assert_eq!(found, expect, "{bucket}");
        };
        let (ebb, lab) = (
            "ebb-123456789012-us-east-1",
            "lab-b-123456789012-eu-central-1",
        );
        check(ebb, None, Some(("ebb-sweeper", Some("us-east-1"))));
        check(lab, None, Some(("lab-b-sweeper", Some("eu-central-1"))));
        check(ebb, Some("other"), Some(("other", Some("us-east-1"))));
        check("data", Some("other"), Some(("other", None)));
        check("data", None, None);
        check("123456789012-us-east-1", None, None);
        check("ebb-123456789012", None, None);
    }

    #[test]
    fn requests_go_to_lambda_of_the_region_or_to_a_named_address() {
        let region = |name: &str| Region::new(name).expect("a region");
        let none = |_: &str| None;
        let expect = "https://lambda.eu-central-1.amazonaws.com";
        assert_eq!(endpoint(&region("eu-central-1"), none), expect);
        let expect = "https://lambda.cn-north-1.amazonaws.com.cn";
        assert_eq!(endpoint(&region("cn-north-1"), none), expect);
        let set = |name: &str| Some(format!("http://127.0.0.1/{name}"));
        let expect = "http://127.0.0.1/AWS_ENDPOINT_URL_LAMBDA";
        assert_eq!(endpoint(&region("eu-central-1"), set), expect);
    }

    #[test]
    fn each_answer_of_lambda_is_a_result_or_has_a_remedy() {
        let answer = |status: u16, body: &str| {
            let body = body.as_bytes().to_vec();
            read(&ApiAnswer { status, body }, "ebb-sweeper")
        };
        let tests = answer(
            200,
            r#"{"channel_tests": [{"channel": "slack", "result": "refused", "reason": "HTTP 404"}]}"#,
        );
        let tests = tests.expect("tests");
        assert_eq!(
            tests[0].result,
            ChannelResult::Refused("HTTP 404".to_owned())
        );
        let check = |status, body: &str, words: &str, remedy: &str| {
            let check = answer(status, body).expect_err("no tests");
            let all = format!("{} {:?}", check.detail, check.remedy);
            assert!(all.contains(words) && all.contains(remedy), "{all}");
            check.state
        };
        let failed = r#"{"errorType": "SweepFailed", "errorMessage": "EBB_BUCKET is not set"}"#;
        check(200, failed, "EBB_BUCKET is not set", "aws logs tail");
        check(
            200,
            r#"{"folding": {}}"#,
            "earlier version",
            "apply the module",
        );
        let denied = r#"{"Message": "User ana is not authorized"}"#;
        check(
            403,
            denied,
            "ana is not authorized",
            "lambda:InvokeFunction",
        );
        check(404, "{}", "no function ebb-sweeper", "--function NAME");
        let busy = check(
            429,
            r#"{"message": "Rate exceeded"}"#,
            "a sweep runs",
            "again",
        );
        assert_eq!(busy, State::NotChecked);
        let state = check(502, "bad gateway", "HTTP 502: bad gateway", "None");
        assert_eq!(state, State::Missing);
    }
}
