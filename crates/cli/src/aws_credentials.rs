//! The credentials of the user for AWS.

use anyhow::{Result, anyhow};
use ebb_analysis::shell::option;
use ebb_cloud::aws::{AwsConfig, Caller, caller, proxy_variable};
use ebb_telemetry::identity::Region;

/// The account of a profile, and the caller. Calls use this region unless they name another.
pub(crate) async fn connect(
    region: Option<&Region>,
    profile: Option<&str>,
) -> Result<(AwsConfig, Caller)> {
    let config = AwsConfig::load_as(region, profile).await;
    let who = caller(&config).await;
    let who = who.map_err(|error| {
        let error = error.to_string();
        let remedy = remedy(&error, profile);
        anyhow!("failed to use the AWS credentials: {error}\n{remedy}")
    })?;
    Ok((config, who))
}

/// The remedy for an error of the credentials of this profile, as indented lines.
pub(crate) fn remedy(error: &str, profile: Option<&str>) -> String {
    match CredentialProblem::from(error) {
        CredentialProblem::NoProfile(name) => format!(
            "  no profile {name} in the AWS configuration; `aws configure list-profiles` shows all"
        ),
        CredentialProblem::NeedsAwsCli => {
            let variable = std::env::var("AWS_PROFILE").ok();
            let variable = variable.filter(|name| !name.is_empty());
            export_by_cli(profile, variable.as_deref())
        }
        CredentialProblem::Unreachable => without_answer(proxy_variable()),
        CredentialProblem::Other => "  run `aws configure`, or add --profile NAME
  with IAM Identity Center: eval \"$(aws configure export-credentials --format env)\""
            .to_owned(),
    }
}

/// Why AWS accepts no credentials, as far as the error of the SDK shows it.
#[derive(Debug, PartialEq, Eq)]
enum CredentialProblem<'a> {
    /// The AWS configuration has no profile of this name.
    NoProfile(&'a str),
    /// Only the AWS CLI gets the credentials of the profile: IAM Identity Center or a login.
    NeedsAwsCli,
    /// AWS did not answer.
    Unreachable,
    /// Any other problem.
    Other,
}

impl<'a> From<&'a str> for CredentialProblem<'a> {
    fn from(error: &'a str) -> Self {
        let before = error.split_once("` was not defined");
        let name = before.and_then(|(before, _)| before.rsplit_once("profile `"));
        if let Some((_, name)) = name {
            return Self::NoProfile(name);
        }
        // The SDK is built without these features, because the AWS CLI can export the credentials.
        if error.contains("cargo feature(s) enabled: ") {
            return Self::NeedsAwsCli;
        }
        let is_unreachable = [
            "dispatch failure: io error",
            "dispatch failure: timeout",
            "request has timed out",
        ];
        match is_unreachable.iter().any(|words| error.contains(words)) {
            true => Self::Unreachable,
            false => Self::Other,
        }
    }
}

/// The export of credentials. Keys in the environment have priority over `AWS_PROFILE`, but not over
/// a profile that is given to Ebb.
fn export_by_cli(profile: Option<&str>, variable: Option<&str>) -> String {
    let name = profile.or(variable).unwrap_or("default");
    let then = match profile {
        Some(_) => "without --profile and without aws_profile in the file of deployments",
        None => "again",
    };
    format!(
        "  only the AWS CLI can get the credentials of this profile; export them:\n  \
         eval \"$(aws configure export-credentials {} --format env)\"\n  \
         then run the command {then}",
        option("--profile", name)
    )
}

fn without_answer(proxy: Option<&str>) -> String {
    match proxy {
        Some(variable) => format!(
            "  AWS did not answer; {variable} names a proxy: check it, or list hosts without a proxy \
             in no_proxy"
        ),
        None => "  AWS did not answer; check the network, the DNS server and the region; behind a \
                 proxy, set https_proxy"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_problem_is_recognized_by_the_words_of_the_sdk() {
        let check = |error: &str, expect: CredentialProblem<'_>| {
            let error = format!("sts:GetCallerIdentity failed: {error}");
            assert_eq!(CredentialProblem::from(error.as_str()), expect, "{error}");
        };
        let not_enabled = "dispatch failure: other: the credential provider was not enabled";
        check(
            &format!(
                "{not_enabled}: profile `nope` was not defined: could not find source profile"
            ),
            CredentialProblem::NoProfile("nope"),
        );
        check(
            &format!("{not_enabled}: no credentials found in chain. Attempted: Environment"),
            CredentialProblem::Other,
        );
        check(not_enabled, CredentialProblem::Other);
        check("ExpiredToken: it has expired", CredentialProblem::Other);
        check(
            "dispatch failure: other: the credentials provider was not properly configured: \
             ProfileFile provider could not be built: This behavior requires following cargo \
             feature(s) enabled: sso. ",
            CredentialProblem::NeedsAwsCli,
        );
        let io = "dispatch failure: io error: client error (Connect): dns error";
        check(io, CredentialProblem::Unreachable);
        let late = "request has timed out: operation attempt timeout";
        check(late, CredentialProblem::Unreachable);
    }

    #[test]
    fn the_export_names_the_profile_and_the_option_to_remove() {
        let check = |profile, variable, command: &str, end: &str| {
            let remedy = export_by_cli(profile, variable);
            let export = format!("export-credentials {command} --format env)\"");
            assert!(remedy.contains(&export), "{remedy}");
            assert!(remedy.ends_with(end), "{remedy}");
        };
        let end = "without aws_profile in the file of deployments";
        check(Some("lab"), Some("x"), "--profile 'lab'", end);
        check(None, Some("a'b"), r"--profile 'a'\''b'", "command again");
        check(None, None, "--profile 'default'", "command again");
    }

    #[test]
    fn without_an_answer_the_variable_of_the_proxy_is_named() {
        assert!(without_answer(Some("ALL_PROXY")).contains("ALL_PROXY names a proxy"));
        assert!(without_answer(None).contains("set https_proxy"));
    }
}
