//! The deployment that a command asks: which one, from arguments or the user's file, and the
//! requests to its bucket, its folder or its API.

mod api_client;
mod config_file;
mod opened;
mod source;
mod target;

pub(crate) use api_client::ApiClient;
#[cfg(test)]
pub(crate) use api_client::tests::local_api;
pub(crate) use config_file::{ConfigFile, config_path, with_entry};
pub(crate) use opened::{
    Deployment, MAX_REPORT_BYTES, StoredDeployment, check_folder, newest_report, open,
};
pub(crate) use source::{Source, deployment_of, source};
pub(crate) use target::{Place, Setting, Target, ValueSource, choose};
