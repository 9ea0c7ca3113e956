//! The clients of one region, and the result of one kind of call.

use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::Region;

use super::super::config::AwsConfig;
use crate::ports::{CloudError, bounded};

/// Clients of one region.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    pub(super) region: Region,
    pub(super) ec2: aws_sdk_ec2::Client,
    pub(super) batch: aws_sdk_batch::Client,
    pub(super) ecs: aws_sdk_ecs::Client,
}

impl Clients {
    pub(super) fn new(config: &AwsConfig, region: &Region) -> Self {
        Self {
            region: region.clone(),
            ec2: client!(aws_sdk_ec2, config, region),
            batch: client!(aws_sdk_batch, config, region),
            ecs: client!(aws_sdk_ecs, config, region),
        }
    }
}

/// The results of one kind of call, and its refusals.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) found: Vec<T>,
    pub(super) refused: Vec<CloudError>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            found: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl<T> Part<T> {
    pub(super) fn absorb(&mut self, other: Self) {
        self.found.extend(other.found);
        self.refused.extend(other.refused);
    }

    /// Adds a converted result; a conversion error becomes a gap.
    pub(super) fn take(&mut self, operation: &str, read: Result<T, String>) {
        match read {
            Ok(found) => self.found.push(found),
            Err(message) => self.refused.push(unreadable(operation, &message)),
        }
    }

    /// The refusal, if there are no results.
    pub(super) fn silent(&self) -> Option<&CloudError> {
        self.refused.first().filter(|_| self.found.is_empty())
    }

    pub(super) fn into_found(self, region: &Region, gaps: &mut Vec<Gap>) -> Vec<T> {
        gaps.extend(self.refused.iter().map(|error| gap(region, error)));
        self.found
    }
}

pub(super) fn unreadable(operation: &str, message: &str) -> CloudError {
    CloudError::Failed {
        operation: operation.to_owned(),
        message: bounded(message),
    }
}

pub(super) fn gap(region: &Region, error: &CloudError) -> Gap {
    let (operation, reason) = match error {
        CloudError::Denied { operation, message } => (operation, format!("denied: {message}")),
        CloudError::Failed { operation, message } => (operation, message.clone()),
        CloudError::Missing { operation, what } => (operation, format!("{what} does not exist")),
        CloudError::Conflict { operation, what } => {
            (operation, format!("{what} was changed by another writer"))
        }
    };
    let denied = match error {
        CloudError::Denied { operation, .. } => Some(operation.clone()),
        _ => None,
    };
    Gap {
        scope: format!("{region}: {operation}"),
        reason,
        denied,
    }
}
