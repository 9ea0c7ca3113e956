//! Categories of FOCUS for the services of a bill.

use ebb_model::finding::Finding;

/// A service, by its name on the bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    pub(crate) category: &'static str,
    pub(crate) subcategory: &'static str,
}

/// Sender of the bill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    Aws,
    Google,
}

/// Names of the services with machines on the bills of AWS and Google.
const MACHINES: [&str; 3] = [
    "Amazon Elastic Compute Cloud - Compute",
    "Compute Engine",
    // In exports in the format of FOCUS, with the other charges of EC2.
    "Amazon Elastic Compute Cloud",
];

/// Name on the bill, category and subcategory. Other services have the category `Other`.
///
/// Source: FOCUS 1.2, "Service Category" and "Service Subcategory". The names are from the
/// dimension `SERVICE` of Cost Explorer and from the billing export of Google.
const SERVICES: [(&str, &str, &str); 38] = [
    ("AWS Backup", "Storage", "Backup Storage"),
    ("AWS Batch", "Compute", "Other (Compute)"),
    (
        "AWS CloudTrail",
        "Management and Governance",
        "Observability",
    ),
    ("AWS Config", "Management and Governance", "Compliance"),
    (
        "AWS Cost Explorer",
        "Management and Governance",
        "Cost Management",
    ),
    ("AWS Glue", "Analytics", "Data Processing"),
    (
        "AWS Key Management Service",
        "Security",
        "Secret Management",
    ),
    ("AWS Lambda", "Compute", "Serverless Compute"),
    ("AWS Secrets Manager", "Security", "Secret Management"),
    (
        "AWS Step Functions",
        "Integration",
        "Workflow Orchestration",
    ),
    (
        "AWS Support (Business)",
        "Management and Governance",
        "Support",
    ),
    (
        "AWS Support (Developer)",
        "Management and Governance",
        "Support",
    ),
    ("Amazon Athena", "Analytics", "Analytics Platforms"),
    ("Amazon CloudFront", "Networking", "Content Delivery"),
    ("Amazon DynamoDB", "Databases", "NoSQL Databases"),
    (
        "Amazon EC2 Container Registry (ECR)",
        "Compute",
        "Containers",
    ),
    ("Amazon Elastic Block Store", "Storage", "Block Storage"),
    (
        "Amazon Elastic Compute Cloud",
        "Compute",
        "Virtual Machines",
    ),
    (
        "Amazon Elastic Compute Cloud - Compute",
        "Compute",
        "Virtual Machines",
    ),
    ("Amazon Elastic Container Service", "Compute", "Containers"),
    (
        "Amazon Elastic Container Service for Kubernetes",
        "Compute",
        "Containers",
    ),
    ("Amazon Elastic File System", "Storage", "File Storage"),
    (
        "Amazon Elastic Load Balancing",
        "Networking",
        "Application Networking",
    ),
    ("Amazon ElastiCache", "Databases", "Caching"),
    ("Amazon FSx", "Storage", "File Storage"),
    ("Amazon Redshift", "Databases", "Data Warehouses"),
    (
        "Amazon Relational Database Service",
        "Databases",
        "Relational Databases",
    ),
    ("Amazon Route 53", "Networking", "Network Routing"),
    (
        "Amazon SageMaker",
        "AI and Machine Learning",
        "Machine Learning",
    ),
    (
        "Amazon Simple Notification Service",
        "Integration",
        "Messaging",
    ),
    ("Amazon Simple Queue Service", "Integration", "Messaging"),
    ("Amazon Simple Storage Service", "Storage", "Object Storage"),
    (
        "Amazon Virtual Private Cloud",
        "Networking",
        "Network Infrastructure",
    ),
    (
        "AmazonCloudWatch",
        "Management and Governance",
        "Observability",
    ),
    ("BigQuery", "Databases", "Data Warehouses"),
    ("Cloud Storage", "Storage", "Object Storage"),
    ("Compute Engine", "Compute", "Virtual Machines"),
    // Volumes, snapshots, addresses, gateways and traffic of machines.
    ("EC2 - Other", "Compute", "Other (Compute)"),
];

impl<'a> Service<'a> {
    pub(crate) fn named(name: &'a str) -> Self {
        let known = SERVICES.iter().find(|(known, ..)| *known == name);
        let (category, subcategory) = known
            .map_or(("Other", "Other (Other)"), |(_, category, subcategory)| {
                (*category, *subcategory)
            });
        Self {
            name,
            category,
            subcategory,
        }
    }

    /// Whether the machines are billed under this service.
    pub(crate) fn has_machines(name: &str) -> bool {
        MACHINES.contains(&name)
    }

    /// The service under which a provider bills machines.
    pub(crate) fn of_machines(provider: Option<Provider>) -> Self {
        match provider {
            Some(Provider::Aws) => Self::named(MACHINES[0]),
            Some(Provider::Google) => Self::named(MACHINES[1]),
            None => Self {
                name: UNKNOWN,
                category: "Compute",
                subcategory: "Virtual Machines",
            },
        }
    }
}

/// Value for unknown columns for which FOCUS allows no null.
pub(crate) const UNKNOWN: &str = "unknown";

impl Provider {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Google => "Google Cloud",
        }
    }

    /// Term of the provider for an account.
    pub(crate) fn account(self) -> &'static str {
        match self {
            Self::Aws => "Account",
            Self::Google => "Project",
        }
    }

    /// Regions of AWS end with a separate number, as in `eu-central-1`. Regions of Google end with
    /// a word and a digit, as in `europe-west3`.
    pub(crate) fn of_region(region: &str) -> Option<Self> {
        let (_, last) = region.rsplit_once('-')?;
        let letters = last.trim_end_matches(|c: char| c.is_ascii_digit());
        let ends_with_digit = letters.len() < last.len();
        let is_word = !letters.is_empty() && letters.bytes().all(|b| b.is_ascii_lowercase());
        match (ends_with_digit, letters.is_empty()) {
            (true, true) => Some(Self::Aws),
            (true, false) if is_word => Some(Self::Google),
            _ => None,
        }
    }

    /// Names of AWS services start with the name of the provider. A Google service is not
    /// recognizable by name, except the one with machines.
    pub(crate) fn of_service(name: &str) -> Option<Self> {
        let of_aws = ["Amazon", "AWS", "EC2 - Other"];
        if of_aws.iter().any(|start| name.starts_with(start)) {
            return Some(Self::Aws);
        }
        (name == MACHINES[1]).then_some(Self::Google)
    }
}

/// Type of the resource of a finding, and the service that bills it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    pub(crate) service: Service<'static>,
    pub(crate) resource: &'static str,
}

impl About {
    pub(crate) fn from_finding(finding: &Finding, provider: Option<Provider>) -> Self {
        let about = |service: &'static str, resource| Self {
            service: Service::named(service),
            resource,
        };
        let resource = &finding.resource;
        match resource.id.as_str() {
            id if id.starts_with("vol-") => about("Amazon Elastic Block Store", "Volume"),
            id if id.starts_with("snap-") => about("Amazon Elastic Block Store", "Snapshot"),
            id if id.starts_with("eipalloc-") => {
                about("Amazon Virtual Private Cloud", "Elastic IP address")
            }
            _ => Self {
                service: Service::of_machines(provider),
                resource: match resource.instance_type.is_some() && resource.node.is_none() {
                    true => "Instance",
                    // Jobs, steps and their controllers, which are billed through machines.
                    false => "Workload",
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_the_bill_have_a_category_and_others_are_other() {
        let check = |name: &str, category: &str, subcategory: &str| {
            let it = Service::named(name);
            assert_eq!(
                (it.category, it.subcategory),
                (category, subcategory),
                "{name}"
            );
        };
        check("Compute Engine", "Compute", "Virtual Machines");
        check("AWS Lambda", "Compute", "Serverless Compute");
        check("Tax", "Other", "Other (Other)");
    }

    #[test]
    fn a_region_tells_whose_it_is() {
        let check = |region: &str, expect: Option<Provider>| {
            assert_eq!(Provider::of_region(region), expect, "{region}");
        };
        check("eu-central-1", Some(Provider::Aws));
        check("us-gov-west-1", Some(Provider::Aws));
        check("europe-west3", Some(Provider::Google));
        check("us-central1", Some(Provider::Google));
        check("on-premises", None);
        check("westeurope", None);
        check("", None);
    }
}
