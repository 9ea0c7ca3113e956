//! Savings Plans over the real SDK: none, and more than one page.

use anyhow::{Context, Result};
use ebb_cloud::aws::AwsBill;
use ebb_cloud::ports::BillSource;
use ebb_tests::simulated::Simulated;
use jiff::Timestamp;
use serde_json::json;

use super::home;

/// An answer in the form of the Cost Explorer API reference, page `SavingsPlansUtilizationDetail`,
/// which contains no example.
pub(crate) async fn are_read(account: &Simulated) -> Result<()> {
    account.extension("faults", &json!({"pages": 2, "faults": []}))?;
    let bill = AwsBill::new(&home(account).await?);
    let now = Timestamp::now();
    assert_eq!(bill.plans(now).await, Ok(Vec::new()), "without any");
    assert_eq!(bill.requests(), 1);
    let plan = |n: u32| {
        json!({
            "SavingsPlanArn": format!("arn:aws:savingsplans::111122223333:savingsplan/{n}"),
            "Attributes": {
                "SavingsPlansType": "ComputeSavingsPlans", "Region": "Any", "InstanceFamily": "",
                "HourlyCommitment": "0.5", "EndDateTime": "2099-06-02T22:44:46.000Z",
                "PaymentOption": "No Upfront", "PurchaseTerm": "1yr",
            },
            "Utilization": {
                "TotalCommitment": "84.0", "UsedCommitment": "63.0",
                "UnusedCommitment": "21.0", "UtilizationPercentage": "75",
            },
        })
    };
    let plans: Vec<_> = (0..21).map(plan).collect();
    account.extension("ce/savings-plans", &json!({"plans": plans}))?;
    let listed_plans = bill.plans(now).await?;
    assert_eq!(
        (listed_plans.len(), bill.requests()),
        (21, 3),
        "on two pages"
    );
    let used = listed_plans[0].used.context("its use is known")?;
    assert_eq!(used.per_hour.0.micros(), 375_000);
    assert!(listed_plans[0].until.is_some() && listed_plans[0].region.is_none());
    account.extension("ce/savings-plans", &json!({"plans": []}))?;
    Ok(())
}
