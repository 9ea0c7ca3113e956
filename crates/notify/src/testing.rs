use ebb_model::report::Report;

use crate::diff::Changes;

/// What a channel hears that was told nothing yet.
pub(crate) fn all_new(report: &Report) -> Changes {
    Changes {
        new: report.findings.iter().map(|f| f.id.clone()).collect(),
        ..Changes::default()
    }
}
