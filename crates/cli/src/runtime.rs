//! The asynchronous runtime of the commands.

use anyhow::{Context, Result};

/// One thread in addition to that of the command. A checkpoint of the lake blocks a thread, while another
/// thread has to serve its connections.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .context("failed to start the runtime")
}
