//! The asynchronous runtime of the commands.

use anyhow::{Context, Result};

/// One thread is enough, because it mostly waits.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build()
        .context("failed to start the runtime")
}
