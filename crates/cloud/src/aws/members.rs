//! The accounts in which a role is assumed: those of a list, or all of the organization. The role
//! has the same name in each account.

#[cfg(all(feature = "inventory", feature = "metrics", feature = "bill"))]
use std::sync::Arc;

use aws_config::sts::AssumeRoleProvider;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_organizations::types::{Account, AccountState, AccountStatus};
use ebb_model::visibility_gap::{ALL_ACCOUNTS, Gap, Refused};
use ebb_telemetry::identity::AccountId;

use super::Caller;
use super::config::AwsConfig;
use super::error::cloud_error;
#[cfg(all(feature = "inventory", feature = "metrics", feature = "bill"))]
use super::{AwsBill, AwsInventory, AwsMarkets, AwsMetrics};
#[cfg(all(feature = "inventory", feature = "metrics", feature = "bill"))]
use crate::accounts::{Accounts, Member};
use crate::error_chain::reason;
use crate::permissions::{ASSUME_ROLE, LIST_ACCOUNTS};
use crate::ports::{CloudResult, bounded};
use crate::turns::in_turns;

/// The session name in the CloudTrail of the accounts.
const SESSION: &str = "ebb";

/// The accounts that are read in addition to the account of the credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum MemberScope {
    /// No other account.
    #[default]
    Nobody,
    /// These accounts.
    Listed(Vec<AccountId>),
    /// All active accounts of the organization. Only its management account and delegated
    /// administrators can list them.
    Organization,
}

impl MemberScope {
    /// Parses `organization`, or account ids separated by commas; an empty text means no other
    /// account.
    ///
    /// # Errors
    /// Names the part that is not an account id.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Nobody);
        }
        if text.eq_ignore_ascii_case("organization") {
            return Ok(Self::Organization);
        }
        let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
        let account = |id: &str| {
            let digits = id.len() == 12 && id.bytes().all(|b| b.is_ascii_digit());
            let account = AccountId::new(id).ok().filter(|_| digits);
            account.ok_or_else(|| format!("'{id}' is not an account id of 12 digits"))
        };
        ids.map(account).collect::<Result<_, _>>().map(Self::Listed)
    }
}

/// The role that is assumed in each account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRole {
    /// The name, or the path and name.
    pub name: String,
    /// The external id that the role requires; `None` if it requires none.
    pub external_id: Option<String>,
}

/// The accounts that were entered, the own account first, and those that refused.
#[derive(Debug, Clone, Default)]
pub struct Entered {
    /// Each account with its own configuration.
    pub accounts: Vec<(AccountId, AwsConfig)>,
    /// The accounts that could not be entered, with the reason.
    pub gaps: Vec<Gap>,
}

#[cfg(all(feature = "inventory", feature = "metrics", feature = "bill"))]
impl Entered {
    /// All accounts combined as one, with the Spot Instance Advisor's file at `advisor`.
    pub fn together(self, advisor: &str) -> Accounts {
        let members = self.accounts.into_iter().map(|(id, config)| Member {
            id,
            inventory: Arc::new(AwsInventory::new(&config)),
            metrics: Some(Arc::new(AwsMetrics::new(&config))),
            bill: Some(Arc::new(AwsBill::new(&config))),
            markets: Some(Arc::new(AwsMarkets::new(&config, advisor))),
        });
        Accounts::new(members.collect(), self.gaps)
    }
}

/// Finds and enters the accounts; `who` is the identity of the credentials of `home`.
pub async fn enter(
    home: &AwsConfig,
    who: &Caller,
    scope: &MemberScope,
    role: &MemberRole,
) -> Entered {
    let mut entered = Entered::default();
    let partition = who.arn.as_deref().and_then(|arn| arn.split(':').nth(1));
    let partition = partition.unwrap_or("aws").to_owned();
    let listed = match scope {
        MemberScope::Nobody => Vec::new(),
        MemberScope::Listed(ids) => ids.clone(),
        MemberScope::Organization => match organization(home).await {
            Ok(ids) => ids,
            Err(error) => {
                entered.gaps.push(Refused::from(error).gap(ALL_ACCOUNTS));
                Vec::new()
            }
        },
    };
    let mut others: Vec<_> = listed
        .into_iter()
        .filter(|id| who.account.as_ref() != Some(id))
        .collect();
    others.sort_unstable();
    others.dedup();
    entered.accounts.extend(
        who.account
            .iter()
            .map(|id| (id.clone(), home.for_account(id.clone()))),
    );
    let calls = others.into_iter().map(|id| {
        let arn = format!(
            "arn:{partition}:iam::{id}:role/{}",
            role.name.trim_start_matches('/')
        );
        let (home, external_id) = (home.clone(), role.external_id.clone());
        async move {
            let config = home.assuming(&arn, external_id.as_deref()).await;
            (id.clone(), config.map(|config| config.for_account(id)))
        }
    });
    for (id, config) in in_turns(calls.collect::<Vec<_>>()).await {
        match config {
            Ok(config) => entered.accounts.push((id, config)),
            Err(reason) => entered
                .gaps
                .push(Gap::new(Gap::not_entered(&id, ASSUME_ROLE), reason)),
        }
    }
    // The own account stays first.
    let home = usize::from(!entered.accounts.is_empty());
    entered.accounts[home..].sort_by(|(a, _), (b, _)| a.cmp(b));
    entered.gaps.sort();
    entered
}

async fn organization(home: &AwsConfig) -> CloudResult<Vec<AccountId>> {
    let client = aws_sdk_organizations::Client::new(&home.sdk);
    let mut pages = client.list_accounts().into_paginator().send();
    let mut ids = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| cloud_error(LIST_ACCOUNTS, "accounts", &e))?;
        ids.extend(page.accounts().iter().filter_map(active));
    }
    Ok(ids)
}

/// The id of an active account. `state` has replaced `status`.
fn active(account: &Account) -> Option<AccountId> {
    let active = match (account.state(), account.status()) {
        (Some(state), _) => *state == AccountState::Active,
        (None, status) => status == Some(&AccountStatus::Active),
    };
    account
        .id()
        .filter(|_| active)
        .and_then(|id| AccountId::new(id).ok())
}

impl AwsConfig {
    /// The same configuration, with the account of its credentials.
    #[must_use]
    pub fn for_account(&self, account: AccountId) -> Self {
        Self {
            sdk: self.sdk.clone(),
            account: Some(account),
        }
    }

    /// The same configuration with a role of another account. The role is assumed once here, so
    /// that a refusal is known before any other call.
    async fn assuming(&self, arn: &str, external_id: Option<&str>) -> Result<Self, String> {
        let role = AssumeRoleProvider::builder(arn)
            .configure(&self.sdk)
            .session_name(SESSION);
        let role = match external_id {
            Some(id) => role.external_id(id),
            None => role,
        };
        let provider = SharedCredentialsProvider::new(role.build().await);
        let credentials = provider.provide_credentials().await;
        credentials.map_err(|error| bounded(&format!("{arn}: {}", reason(&error))))?;
        let sdk = self
            .sdk
            .clone()
            .into_builder()
            .credentials_provider(provider);
        Ok(Self {
            sdk: sdk.build(),
            account: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_accounts_are_meant_is_read_from_one_setting() {
        let ids = |ids: &[&str]| {
            ids.iter()
                .filter_map(|id| AccountId::new(*id).ok())
                .collect()
        };
        let check = |text: &str, expect: Result<MemberScope, &str>| {
            assert_eq!(
                MemberScope::parse(text),
                expect.map_err(str::to_owned),
                "{text}"
            );
        };
        check("", Ok(MemberScope::Nobody));
        check(" Organization ", Ok(MemberScope::Organization));
        let two = MemberScope::Listed(ids(&["111111111111", "222222222222"]));
        check("111111111111, 222222222222,", Ok(two));
        check("11", Err("'11' is not an account id of 12 digits"));
        check("all", Err("'all' is not an account id of 12 digits"));
    }

    #[test]
    fn only_active_accounts_are_entered() {
        let account = Account::builder().id("111111111111");
        let state = |state| active(&account.clone().state(state).build()).is_some();
        assert!(state(AccountState::Active));
        assert!(!state(AccountState::Suspended));
        let old = account.clone().status(AccountStatus::Active).build();
        assert!(active(&old).is_some());
        assert!(active(&account.build()).is_none());
    }
}
