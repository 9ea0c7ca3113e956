use ebb_model::report::Report;

use crate::diff::Changes;

/// Changes for a channel without earlier notifications.
pub(crate) fn all_new(report: &Report) -> Changes {
    Changes {
        new: report.findings.iter().map(|f| f.id.clone()).collect(),
        ..Changes::default()
    }
}
