//! Errors of a policy file.

use std::fmt;

use ebb_telemetry::safe_text::one_line;
use thiserror::Error;

use crate::policy::file_position::{self, FilePosition};

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

impl PolicyError {
    /// The error on one line, with the file, its line and the key if they are known. `text` is the
    /// content of the file.
    pub fn in_file(&self, file: &dyn fmt::Display, text: &str) -> String {
        let (position, problem) = match self {
            Self::Toml(toml) => {
                let position = toml.span().map(|span| file_position::of_span(text, &span));
                let problem = match (toml.message(), toml.span()) {
                    (DUPLICATE, Some(at)) => {
                        let key = text.get(at).unwrap_or_default();
                        format!("{DUPLICATE} `{}`", one_line(key))
                    }
                    (message, _) => plain_types(message),
                };
                (position, problem)
            }
            Self::Value {
                key,
                value,
                problem,
            } => {
                let position = file_position::of_key(text, key);
                (position, format!("value {value} {problem}"))
            }
            Self::Quiet { key, problem } => (file_position::of_key(text, key), problem.clone()),
            Self::Exemption { index, .. } => self.in_list(text, "exempt", *index),
            Self::Price { index, .. } => self.in_list(text, "prices", *index),
            Self::Budget { index, .. } => self.in_list(text, "budgets", *index),
            Self::Webhook { index, .. } => self.in_list(text, "webhooks", *index),
            Self::Route { index, .. } => self.in_list(text, "route", *index),
        };
        match position {
            Some(position) => format!("{file}:{position}: {problem}"),
            None => format!("{file}: {self}"),
        }
    }

    fn in_list(&self, text: &str, list: &str, index: usize) -> (Option<FilePosition>, String) {
        (file_position::of_entry(text, list, index), self.to_string())
    }
}

/// Words instead of the names of types in Rust.
fn plain_types(message: &str) -> String {
    // A number with decimals has the wrong type; the range says nothing about it.
    let ranges = match message.starts_with("invalid value: integer") {
        true => [
            ("u64", " from 0 on"),
            ("u32", " from 0 to 4294967295"),
            ("u16", " from 0 to 65535"),
            ("u8", " from 0 to 255"),
        ],
        false => ["u64", "u32", "u16", "u8"].map(|name| (name, "")),
    };
    let ranges = ranges.into_iter().chain([("i64", "")]);
    ranges.fold(message.to_owned(), |text, (name, range)| {
        text.replace(
            &format!("expected {name}"),
            &format!("expected a whole number{range}"),
        )
    })
}

/// The message of the parser for a key that occurs twice.
const DUPLICATE: &str = "duplicate key";

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn an_error_is_one_line_with_file_line_and_key() {
        let check = |text: &str, expect: &str| {
            let error = Policy::parse(text).expect_err(text);
            assert_eq!(error.in_file(&"config/policy.toml", text), expect);
        };
        check(
            "[[prices]]\nnode = \"a\"\nusd_micros_per_hour = 0.35\n",
            "config/policy.toml:3: prices.usd_micros_per_hour: invalid type: floating point `0.35`, \
             expected a whole number",
        );
        check(
            "[idle]\nafter_seconds = -5\n",
            "config/policy.toml:2: idle.after_seconds: invalid value: integer `-5`, expected a whole \
             number from 0 on",
        );
        check(
            "[idle]\nafter_seconds = 60\n[idle]\n",
            "config/policy.toml:3: duplicate key `idle`",
        );
        check(
            "[storage]\nafter = 1\n",
            "config/policy.toml:2: storage.after: unknown field `after`, expected one of \
             `unused_after_seconds`, `snapshot_after_seconds`, `min_volume_saving_usd_micros`",
        );
        check(
            "\n[lake]\nsteps_days = 3\n",
            "config/policy.toml:3: lake.steps_days: value 3 must be at least 30, or 0 to keep rows \
             forever",
        );
    }
}
