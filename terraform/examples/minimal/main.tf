# The smallest deployment: one account, findings by the API and in the bucket.

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
  region = "eu-central-1"
}

variable "sweeper_package" {
  description = "Zip of the sweeper, from a release or scripts/package."
  type        = string
}

variable "tune_package" {
  description = "Zip of the tune API, from a release or scripts/package."
  type        = string
}

module "ebb" {
  source = "../.."

  sweeper_package = var.sweeper_package
  tune_package    = var.tune_package
}

output "api_url" {
  description = "URL of the tune API."
  value       = module.ebb.api_url
}

# For the configuration of probes.
output "queue_url" {
  description = "Queue for heartbeats."
  value       = module.ebb.queue_url
}

output "bucket" {
  description = "Bucket of the lake and the reports."
  value       = module.ebb.bucket
}

output "region" {
  description = "Region of both."
  value       = module.ebb.region
}

output "node_policy_arn" {
  description = "Policy for the roles of nodes."
  value       = module.ebb.node_policy_arn
}
