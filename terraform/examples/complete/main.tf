# A normal account: the probe's node role, both programs, the digest to Slack
# and email. Copy it, set `source` to the address of this repository as in terraform/README.md, change
# the values, then run `terraform init` and `terraform apply`.

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

variable "probe_package" {
  description = "Archive of the probe, from a release or scripts/package-probe."
  type        = string
}

variable "slack_webhook_url" {
  description = "Slack webhook for notifications; set it as TF_VAR_slack_webhook_url."
  type        = string
  default     = null
  sensitive   = true
}

module "ebb" {
  source = "../.."

  sweeper_package = var.sweeper_package
  tune_package    = var.tune_package
  probe_package   = var.probe_package

  # Or a release that Terraform downloads, with checksums of its SHA256SUMS, instead of the three packages.
  # release = {
  #   url     = "https://example.org/ebb/0.2.0"
  #   version = "0.2.0"
  #   sha256 = {
  #     sweeper = "checksum of ebb-sweeper-0.2.0-aarch64.zip"
  #     tune    = "checksum of ebb-tune-0.2.0-aarch64.zip"
  #     probe   = "checksum of ebb-probe-0.2.0-linux-aarch64.tar.gz"
  #   }
  # }

  regions           = ["eu-central-1", "us-east-1"]
  slack_webhook_url = var.slack_webhook_url
  email_from        = "ebb@example.org"
  email_to          = ["research-computing@example.org"]

  alarm_emails       = ["operations@example.org"]
  monthly_budget_usd = 50

  tags = { owner = "research-computing" }
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

output "node_user_data" {
  description = "User data that installs the probe on new instances."
  value       = module.ebb.node_user_data
}
