//! Every IAM action that an adapter calls, once. Adapters take their operation names from here, and
//! `ebb doctor` and the policies are checked against the list. No action starts, stops or changes a
//! resource of the user.

/// The adapter that calls an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Adapter {
    /// Instances, volumes, addresses, Batch and ECS, and market data of machines.
    Inventory,
    /// CloudWatch.
    Metrics,
    /// Cost Explorer.
    Bill,
    /// Compute Optimizer and Cost Optimization Hub.
    SecondOpinion,
    /// AWS's Price List, and EC2's descriptions of machine types.
    Prices,
    /// SQS, for Ebb's own queues.
    Queue,
    /// S3, for Ebb's own bucket.
    Objects,
    /// Secrets Manager, for Ebb's own secret.
    Secrets,
    /// SES.
    Email,
    /// SNS, for a topic of the deployment.
    Topic,
    /// STS, which needs no permission.
    Identity,
    /// Other accounts: Organizations, and the role that is assumed in each.
    Accounts,
}

/// One action and its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The caller.
    pub adapter: Adapter,
    /// The IAM name of the action.
    pub action: &'static str,
}

macro_rules! permissions {
    ($($adapter:ident { $($name:ident = $action:literal,)* })*) => {
        $($(pub(crate) const $name: &str = $action;)*)*

        /// All permissions, by adapter.
        pub const PERMISSIONS: &[Permission] = &[
            $($(Permission { adapter: Adapter::$adapter, action: $name },)*)*
        ];
    };
}

permissions! {
    Inventory {
        DESCRIBE_REGIONS = "ec2:DescribeRegions",
        DESCRIBE_INSTANCES = "ec2:DescribeInstances",
        DESCRIBE_VOLUMES = "ec2:DescribeVolumes",
        DESCRIBE_ADDRESSES = "ec2:DescribeAddresses",
        DESCRIBE_SNAPSHOTS = "ec2:DescribeSnapshots",
        DESCRIBE_IMAGES = "ec2:DescribeImages",
        DESCRIBE_SPOT_PRICE_HISTORY = "ec2:DescribeSpotPriceHistory",
        DESCRIBE_INSTANCE_TYPE_OFFERINGS = "ec2:DescribeInstanceTypeOfferings",
        DESCRIBE_RESERVED_INSTANCES = "ec2:DescribeReservedInstances",
        GET_SPOT_PLACEMENT_SCORES = "ec2:GetSpotPlacementScores",
        DESCRIBE_COMPUTE_ENVIRONMENTS = "batch:DescribeComputeEnvironments",
        DESCRIBE_JOB_QUEUES = "batch:DescribeJobQueues",
        LIST_JOBS = "batch:ListJobs",
        DESCRIBE_JOBS = "batch:DescribeJobs",
        GET_JOB_QUEUE_SNAPSHOT = "batch:GetJobQueueSnapshot",
        LIST_CLUSTERS = "ecs:ListClusters",
        LIST_CONTAINER_INSTANCES = "ecs:ListContainerInstances",
        DESCRIBE_CONTAINER_INSTANCES = "ecs:DescribeContainerInstances",
        LIST_TASKS = "ecs:ListTasks",
        DESCRIBE_TASKS = "ecs:DescribeTasks",
    }
    Metrics {
        GET_METRIC_DATA = "cloudwatch:GetMetricData",
        LIST_METRICS = "cloudwatch:ListMetrics",
    }
    Bill {
        GET_COST = "ce:GetCostAndUsage",
        GET_COST_WITH_RESOURCES = "ce:GetCostAndUsageWithResources",
        GET_PLANS = "ce:GetSavingsPlansUtilizationDetails",
    }
    SecondOpinion {
        GET_EC2_RECOMMENDATIONS = "compute-optimizer:GetEC2InstanceRecommendations",
        LIST_RECOMMENDATIONS = "cost-optimization-hub:ListRecommendations",
    }
    Prices {
        GET_PRODUCTS = "pricing:GetProducts",
        DESCRIBE_INSTANCE_TYPES = "ec2:DescribeInstanceTypes",
    }
    Queue {
        SEND_MESSAGE = "sqs:SendMessage",
        RECEIVE_MESSAGE = "sqs:ReceiveMessage",
        DELETE_MESSAGE = "sqs:DeleteMessage",
    }
    Objects {
        GET_OBJECT = "s3:GetObject",
        PUT_OBJECT = "s3:PutObject",
        LIST_BUCKET = "s3:ListBucket",
        DELETE_OBJECT = "s3:DeleteObject",
    }
    Secrets {
        GET_SECRET_VALUE = "secretsmanager:GetSecretValue",
    }
    Email {
        SEND_EMAIL = "ses:SendEmail",
        GET_SES_ACCOUNT = "ses:GetAccount",
    }
    Topic {
        PUBLISH = "sns:Publish",
    }
    Accounts {
        LIST_ACCOUNTS = "organizations:ListAccounts",
        ASSUME_ROLE = "sts:AssumeRole",
    }
    Identity {
        GET_CALLER_IDENTITY = "sts:GetCallerIdentity",
    }
}

#[cfg(test)]
mod tests;
