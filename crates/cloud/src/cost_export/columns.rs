//! The columns of an export that are read, by their names in its header.

use std::fmt;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportForm {
    /// AWS Cost and Usage Report 2.0.
    ///
    /// Source: AWS Data Exports, "Cost and Usage Report (CUR) 2.0", table dictionary.
    Cur2,
    /// FinOps Open Cost and Usage Specification, version 1.
    ///
    /// Source: FOCUS specification 1.0 to 1.2, "Columns"; AWS Data Exports, "FOCUS 1.0 with AWS
    /// columns" and "Migrating from FOCUS 1.0 to FOCUS 1.2".
    Focus,
}

impl fmt::Display for ExportForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cur2 => "CUR 2.0",
            Self::Focus => "FOCUS 1.x",
        })
    }
}

/// The kind of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    Amount,
    Time,
    /// Keys and values: a map in Parquet, JSON in CSV.
    Tags,
}

macro_rules! columns {
    ($($column:ident: $kind:ident, $cur:expr, $focus:expr;)*) => {
        /// A column that is read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum ExportColumn {
            $($column,)*
        }

        impl ExportColumn {
            pub(super) const ALL: &[Self] = &[$(Self::$column,)*];

            pub(super) fn kind(self) -> ColumnKind {
                match self {
                    $(Self::$column => ColumnKind::$kind,)*
                }
            }

            /// Its names in one form, the preferred one first; empty if the form does not have it.
            pub(super) fn names(self, form: ExportForm) -> &'static [&'static str] {
                match (self, form) {
                    $((Self::$column, ExportForm::Cur2) => &$cur,)*
                    $((Self::$column, ExportForm::Focus) => &$focus,)*
                }
            }
        }
    };
}

columns! {
    LineItem: Text, ["identity_line_item_id"], [];
    Interval: Text, ["identity_time_interval"], [];
    Start: Time, ["line_item_usage_start_date"], ["ChargePeriodStart"];
    End: Time, ["line_item_usage_end_date"], ["ChargePeriodEnd"];
    Type: Text, ["line_item_line_item_type"], ["ChargeCategory"];
    Class: Text, [], ["ChargeClass"];
    Service: Text, ["line_item_product_code"], ["ServiceName"];
    ServiceCategory: Text, [], ["ServiceCategory"];
    Account: Text, ["line_item_usage_account_id"], ["SubAccountId"];
    Resource: Text, ["line_item_resource_id"], ["ResourceId"];
    UsageType: Text, ["line_item_usage_type"], ["x_UsageType", "SkuMeter"];
    Unit: Text, ["pricing_unit"], ["ConsumedUnit", "PricingUnit"];
    Currency: Text, ["line_item_currency_code"], ["BillingCurrency"];
    Cost: Amount, ["line_item_unblended_cost"], ["EffectiveCost"];
    NetCost: Amount, ["line_item_net_unblended_cost"], [];
    Reservation: Text, ["reservation_reservation_a_r_n"], [];
    ReservedCost: Amount, ["reservation_effective_cost"], [];
    NetReservedCost: Amount, ["reservation_net_effective_cost"], [];
    UnusedUpfront: Amount, ["reservation_unused_amortized_upfront_fee_for_billing_period"], [];
    NetUnusedUpfront: Amount, ["reservation_net_unused_amortized_upfront_fee_for_billing_period"], [];
    UnusedRecurring: Amount, ["reservation_unused_recurring_fee"], [];
    NetUnusedRecurring: Amount, ["reservation_net_unused_recurring_fee"], [];
    PlanCost: Amount, ["savings_plan_savings_plan_effective_cost"], [];
    NetPlanCost: Amount, ["savings_plan_net_savings_plan_effective_cost"], [];
    Commitment: Amount, ["savings_plan_total_commitment_to_date"], [];
    UsedCommitment: Amount, ["savings_plan_used_commitment"], [];
    PlanUpfront: Amount, ["savings_plan_amortized_upfront_commitment_for_billing_period"], [];
    NetPlanUpfront: Amount, ["savings_plan_net_amortized_upfront_commitment_for_billing_period"], [];
    PlanRecurring: Amount, ["savings_plan_recurring_commitment_for_billing_period"], [];
    NetPlanRecurring: Amount, ["savings_plan_net_recurring_commitment_for_billing_period"], [];
    Tags: Tags, ["resource_tags"], ["Tags"];
}

impl ExportColumn {
    const REQUIRED: [Self; 7] = [
        Self::Start,
        Self::End,
        Self::Type,
        Self::Service,
        Self::ServiceCategory,
        Self::Currency,
        Self::Cost,
    ];

    /// The name for messages.
    pub(super) fn name(self, form: ExportForm) -> &'static str {
        self.names(form).first().copied().unwrap_or("column")
    }
}

/// Why a header is not that of an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderProblem {
    /// It has no column of a form.
    #[error(
        "no column of CUR 2.0 (such as line_item_usage_start_date) or FOCUS 1.x (such as \
         ChargePeriodStart); export one of these tables"
    )]
    Unknown,
    /// Required columns are missing.
    #[error("{form} without the columns {}; add them to the query of the export", .missing.join(", "))]
    Missing {
        /// The form that the other columns have.
        form: ExportForm,
        /// The missing columns.
        missing: Vec<&'static str>,
    },
}

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportColumns {
    pub(super) form: ExportForm,
    /// The position of each column in the file, in the order of [`ExportColumn::ALL`].
    at: Vec<Option<usize>>,
}

impl ExportColumns {
    /// Finds the columns in a header.
    pub(super) fn find<'a>(header: impl Iterator<Item = &'a str>) -> Result<Self, HeaderProblem> {
        let header: Vec<&str> = header
            .map(|name| name.trim_start_matches('\u{feff}'))
            .collect();
        let position = |column: ExportColumn, form| {
            let mut names = column.names(form).iter();
            names.find_map(|name| header.iter().position(|found| found == name))
        };
        let forms = [ExportForm::Cur2, ExportForm::Focus];
        let has = |form: &ExportForm| position(ExportColumn::Start, *form).is_some();
        let form = forms.into_iter().find(has).ok_or(HeaderProblem::Unknown)?;
        let all = ExportColumn::ALL.iter();
        let at: Vec<_> = all.map(|column| position(*column, form)).collect();
        let columns = Self { form, at };
        let required = ExportColumn::REQUIRED.into_iter();
        let missing = required
            .filter(|column| columns.at(*column).is_none() && !column.names(form).is_empty());
        let missing: Vec<_> = missing.map(|column| column.name(form)).collect();
        match missing.is_empty() {
            true => Ok(columns),
            false => Err(HeaderProblem::Missing { form, missing }),
        }
    }

    /// The position of a column in the file; `None` if the file does not have it.
    pub(super) fn at(&self, column: ExportColumn) -> Option<usize> {
        self.at[column as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_known_by_its_columns_and_missing_ones_are_named() {
        let check = |header: &str, expect: Result<ExportForm, &str>| {
            let found = ExportColumns::find(header.split(','));
            match (found, expect) {
                (Ok(found), Ok(form)) => assert_eq!(found.form, form, "{header}"),
                (Err(problem), Err(words)) => {
                    assert!(problem.to_string().contains(words), "{problem}");
                }
                (found, expect) => panic!("{found:?} should be {expect:?}"),
            }
        };
        check(
            "\u{feff}line_item_usage_start_date,x,line_item_line_item_type,line_item_product_code,\
             line_item_currency_code,line_item_unblended_cost,line_item_usage_end_date",
            Ok(ExportForm::Cur2),
        );
        check(
            "EffectiveCost,ServiceName,ServiceCategory,ChargeCategory,BillingCurrency,\
             ChargePeriodStart,ChargePeriodEnd",
            Ok(ExportForm::Focus),
        );
        check(
            "EffectiveCost,ChargePeriodStart,ChargePeriodEnd",
            Err(
                "FOCUS 1.x without the columns ChargeCategory, ServiceName, ServiceCategory, \
                 BillingCurrency; add",
            ),
        );
        check("lineItem/UsageStartDate,a", Err("no column of CUR 2.0"));
        check("", Err("no column of CUR 2.0"));
    }
}
