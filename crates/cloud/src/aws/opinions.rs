//! Recommendations of AWS's own advisers, if they are enabled: Compute Optimizer and Cost
//! Optimization Hub. Requests are free.

use aws_sdk_computeoptimizer::types::InstanceRecommendation;
use aws_sdk_costoptimizationhub::types::{Filter, Recommendation, ResourceType};
use ebb_model::inventory::second_opinion::{Adviser, SecondOpinion};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::Usd;

use super::config::AwsConfig;
use super::error::cloud_error;
use crate::permissions::{GET_EC2_RECOMMENDATIONS, LIST_RECOMMENDATIONS};
use crate::ports::{CloudError, CloudResult};

/// The Hub has an endpoint only in this region, which covers all regions.
///
/// Source: AWS General Reference, "Cost Optimization Hub endpoints and quotas".
const HUB_REGION: &str = "us-east-1";

/// Maximum number of recommendations in one page.
const PAGE: i32 = 1_000;

/// Maximum number of pages; more indicate an error.
const MAX_PAGES: usize = 1_000;

/// The recommendations of each adviser for the machines of a region; empty for an adviser that is
/// not enabled.
pub(super) async fn of_region(
    config: &AwsConfig,
    region: &Region,
) -> (Vec<SecondOpinion>, Vec<CloudError>) {
    let (optimizer, hub) = tokio::join!(optimizer(config, region), hub(config, region));
    let (mut opinions, mut refused) = (Vec::new(), Vec::new());
    for answer in [optimizer, hub] {
        match answer {
            Ok(more) => opinions.extend(more),
            Err(error) if is_switched_off(&error) => {}
            Err(error) => refused.push(error),
        }
    }
    (opinions, refused)
}

/// Whether an adviser is not enabled: Compute Optimizer returns `OptInRequiredException`, and the
/// Hub's error states that the account is not enrolled.
fn is_switched_off(error: &CloudError) -> bool {
    let words = error.to_string();
    words.contains("OptInRequired") || words.to_lowercase().contains("enroll")
}

async fn optimizer(config: &AwsConfig, region: &Region) -> CloudResult<Vec<SecondOpinion>> {
    let client = client!(aws_sdk_computeoptimizer, config, region);
    let call = client.get_ec2_instance_recommendations().max_results(PAGE);
    let (mut opinions, mut next) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = call.clone().set_next_token(next).send().await;
        let page = page.map_err(|e| cloud_error(GET_EC2_RECOMMENDATIONS, "machines", &e))?;
        opinions.extend(
            page.instance_recommendations()
                .iter()
                .filter_map(of_optimizer),
        );
        next = page.next_token;
        if next.is_none() {
            break;
        }
    }
    Ok(opinions)
}

/// `None` for an instance that is well sized.
fn of_optimizer(recommendation: &InstanceRecommendation) -> Option<SecondOpinion> {
    let finding = recommendation.finding()?.as_str();
    if matches!(finding, "Optimized" | "OPTIMIZED") {
        return None;
    }
    let mut options: Vec<_> = recommendation.recommendation_options().iter().collect();
    options.sort_by_key(|option| option.rank());
    let best = options.first();
    let saving = best.and_then(|option| {
        let savings = option.savings_opportunity()?.estimated_monthly_savings()?;
        Some(savings.value())
    });
    Some(SecondOpinion {
        adviser: Adviser::ComputeOptimizer,
        resource: recommendation
            .instance_arn()?
            .rsplit('/')
            .next()?
            .to_owned(),
        finding: finding.to_owned(),
        instead: best
            .and_then(|option| option.instance_type())
            .map(str::to_owned),
        saving_a_month: saving.and_then(Usd::from_f64),
        ours: None,
    })
}

async fn hub(config: &AwsConfig, region: &Region) -> CloudResult<Vec<SecondOpinion>> {
    let at = Region::new(HUB_REGION).expect("it is a region");
    let client = client!(aws_sdk_costoptimizationhub, config, &at);
    let filter = Filter::builder()
        .regions(region.as_str())
        .resource_types(ResourceType::Ec2Instance)
        .resource_types(ResourceType::EbsVolume)
        .build();
    let call = client.list_recommendations().filter(filter);
    let mut pages = call.into_paginator().page_size(PAGE).send();
    let mut opinions = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| cloud_error(LIST_RECOMMENDATIONS, "machines", &e))?;
        opinions.extend(page.items().iter().filter_map(of_hub));
    }
    Ok(opinions)
}

fn of_hub(recommendation: &Recommendation) -> Option<SecondOpinion> {
    let instead = recommendation.recommended_resource_summary();
    Some(SecondOpinion {
        adviser: Adviser::CostOptimizationHub,
        resource: recommendation.resource_id()?.to_owned(),
        finding: recommendation.action_type()?.to_owned(),
        instead: instead.filter(|text| !text.is_empty()).map(str::to_owned),
        saving_a_month: recommendation
            .estimated_monthly_savings()
            .and_then(Usd::from_f64),
        ours: None,
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_computeoptimizer::types::{
        EstimatedMonthlySavings, Finding, InstanceRecommendationOption, SavingsOpportunity,
    };

    use super::*;

    #[test]
    fn the_best_option_of_an_instance_that_is_not_optimized_is_reported() {
        let option = |rank: i32, kind: &str, saving: f64| {
            let saving = EstimatedMonthlySavings::builder().value(saving).build();
            let saving = SavingsOpportunity::builder().estimated_monthly_savings(saving);
            InstanceRecommendationOption::builder()
                .rank(rank)
                .instance_type(kind)
                .savings_opportunity(saving.build())
                .build()
        };
        let recommendation = InstanceRecommendation::builder()
            .instance_arn("arn:aws:ec2:us-east-1:111111111111:instance/i-1")
            .finding(Finding::OverProvisioned)
            .recommendation_options(option(2, "m5.large", 1.0))
            .recommendation_options(option(1, "t3.large", 9.25));
        let opinion = of_optimizer(&recommendation.clone().build()).expect("an opinion");
        assert_eq!(
            (opinion.resource.as_str(), opinion.instead.as_deref()),
            ("i-1", Some("t3.large"))
        );
        assert_eq!(opinion.saving_a_month, Some(Usd::from_micros(9_250_000)));
        let well = recommendation.finding(Finding::Optimized).build();
        assert_eq!(of_optimizer(&well), None);
    }

    #[test]
    fn what_the_hub_says_names_resource_action_and_saving() {
        let recommendation = Recommendation::builder()
            .resource_id("i-2")
            .action_type("Stop")
            .estimated_monthly_savings(12.5);
        let opinion = of_hub(&recommendation.clone().build()).expect("an opinion");
        assert_eq!((opinion.finding.as_str(), opinion.instead), ("Stop", None));
        assert_eq!(opinion.saving_a_month, Some(Usd::from_micros(12_500_000)));
        assert_eq!(of_hub(&recommendation.set_action_type(None).build()), None);
    }

    #[test]
    fn one_that_is_not_switched_on_is_no_refusal() {
        let check = |message: &str, expect: bool| {
            let error = CloudError::Failed {
                operation: LIST_RECOMMENDATIONS.to_owned(),
                message: message.to_owned(),
            };
            assert_eq!(is_switched_off(&error), expect, "{message}");
        };
        check("OptInRequiredException: You are not registered", true);
        check(
            "AccessDeniedException: Account is not enrolled for recommendations",
            true,
        );
        check("AccessDeniedException: no", false);
    }
}
