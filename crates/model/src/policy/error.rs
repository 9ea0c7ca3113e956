//! Why a policy is not valid.

use thiserror::Error;

/// Why a policy file was refused.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// It is not TOML, or holds a key or type that is not known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// An exemption that cannot work.
    #[error("the exemption of {subject}: {problem}")]
    Exemption {
        /// Which of the entries, from 0.
        index: usize,
        /// What it is about, and until when.
        subject: String,
        /// Why not.
        problem: &'static str,
    },
    /// A route that cannot work.
    #[error("the route of {owner}: {problem}")]
    Route {
        /// Which of the entries, from 0.
        index: usize,
        /// Whose.
        owner: String,
        /// Why not.
        problem: &'static str,
    },
    /// Quiet hours that cannot work.
    #[error("{key}: {problem}")]
    Quiet {
        /// The key with its table.
        key: &'static str,
        /// Why not.
        problem: String,
    },
    /// A stated price that cannot work.
    #[error("the price of {node}: {problem}")]
    Price {
        /// Which of the entries, from 0.
        index: usize,
        /// Of which node.
        node: String,
        /// Why not.
        problem: &'static str,
    },
    /// A value that cannot work.
    #[error("{key} is {value}: {problem}")]
    Value {
        /// The key with its table.
        key: String,
        /// What the file says.
        value: i64,
        /// Why not.
        problem: &'static str,
    },
}
