# The same module in a simulated account on this machine: storage, queues,
# programs and API in one simulator, inventory and bill in another. The demo
# and the tests apply this.

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

provider "aws" {
  region     = var.region
  access_key = "test"
  secret_key = "test"

  s3_use_path_style           = true
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true

  endpoints {
    apigatewayv2   = var.platform_endpoint
    budgets        = var.platform_endpoint
    cloudwatch     = var.platform_endpoint
    iam            = var.platform_endpoint
    lambda         = var.platform_endpoint
    logs           = var.platform_endpoint
    s3             = var.platform_endpoint
    scheduler      = var.platform_endpoint
    secretsmanager = var.platform_endpoint
    sesv2          = var.platform_endpoint
    sns            = var.platform_endpoint
    sqs            = var.platform_endpoint
    sts            = var.platform_endpoint
  }
}

# No endpoints are set here: the simulator runs the programs with its own, as
# AWS does.
module "ebb" {
  source = "../.."

  name                 = var.name
  sweeper_package      = var.sweeper_package
  tune_package         = var.tune_package
  policy_toml          = var.policy_toml
  rules_toml           = var.rules_toml
  regions              = var.regions
  shards               = var.shards
  slack_webhook_url    = var.slack_webhook_url
  email_from           = var.email_from
  email_to             = var.email_to
  schedule_state       = var.schedule_state
  extra_environment    = var.extra_environment
  api_authorization    = "NONE"
  bucket_force_destroy = true
}
