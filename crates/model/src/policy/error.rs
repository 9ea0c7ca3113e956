//! Errors of a policy file.

use thiserror::Error;

/// Reason why a policy file is invalid.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// Invalid TOML, or an unknown key or type.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// Invalid exemption.
    #[error("the exemption of {subject}: {problem}")]
    Exemption {
        /// Position of the entry, from 0.
        index: usize,
        /// Description of the exemption with its last day.
        subject: String,
        /// Problem.
        problem: &'static str,
    },
    /// Invalid route.
    #[error("the route of {owner}: {problem}")]
    Route {
        /// Position of the entry, from 0.
        index: usize,
        /// Owner of the route.
        owner: String,
        /// Problem.
        problem: &'static str,
    },
    /// Invalid webhook.
    #[error("the webhook {name}: {problem}")]
    Webhook {
        /// Position of the entry, from 0.
        index: usize,
        /// Name of the webhook.
        name: String,
        /// Problem.
        problem: &'static str,
    },
    /// Invalid quiet hours or digest.
    #[error("{key}: {problem}")]
    Quiet {
        /// The key with its table.
        key: &'static str,
        /// Problem.
        problem: String,
    },
    /// Invalid price.
    #[error("the price of {node}: {problem}")]
    Price {
        /// Position of the entry, from 0.
        index: usize,
        /// Node of the price.
        node: String,
        /// Problem.
        problem: &'static str,
    },
    /// Invalid budget.
    #[error("the budget of {subject}: {problem}")]
    Budget {
        /// Position of the entry, from 0.
        index: usize,
        /// The pipeline or cost centre.
        subject: String,
        /// Problem.
        problem: &'static str,
    },
    /// Value out of its range.
    #[error("{key} is {value}: {problem}")]
    Value {
        /// The key with its table.
        key: String,
        /// Value in the file.
        value: i64,
        /// Problem.
        problem: &'static str,
    },
}
