//! The deployment that a command asks: which one, from arguments or the user's file, and the
//! requests to its bucket, its folder or its API.

mod api_client;
mod api_pages;
mod config_file;
#[cfg(test)]
mod demo_deployment;
mod opened;
mod run_tasks;
mod source;
mod stored_explanation;
mod target;

pub(crate) use api_client::ApiClient;
#[cfg(test)]
pub(crate) use api_client::tests::local_api;
pub(crate) use config_file::{ConfigFile, config_path, with_entry};
#[cfg(test)]
pub(crate) use demo_deployment::DemoDeployment;
pub(crate) use opened::{Deployment, MAX_REPORT_BYTES, StoredDeployment, newest_report, open};
#[cfg(feature = "sweep")]
pub(crate) use opened::{check_folder, tell_new_folder};
pub(crate) use run_tasks::{StoredDetails, full_name, missing_run, run_tasks};
pub(crate) use source::{Source, deployment_of, source};
pub(crate) use stored_explanation::{DatedExplanation, stored_explanation};
pub(crate) use target::{Place, Target};
