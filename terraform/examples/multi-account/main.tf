# All accounts of an organization. Apply this in the management account, or in an account that is a
# delegated administrator for StackSets. One deployment scans every account, and the instances of every
# account may send.

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

variable "organization_id" {
  description = "The organization, such as o-a1b2c3d4e5."
  type        = string
}

variable "organizational_unit_ids" {
  description = "Units whose accounts get the role: the root, such as r-a1b2, for all accounts."
  type        = list(string)
}

variable "call_as" {
  description = "Account that manages the StackSet: SELF in the management account, otherwise DELEGATED_ADMIN."
  type        = string
  default     = "SELF"
}

module "ebb" {
  source = "../.."

  sweeper_package = var.sweeper_package
  tune_package    = var.tune_package
  member_accounts = ["organization"]
  senders         = { ec2 = { organization_id = var.organization_id } }

  # The role that the sweeper assumes, in each account that is or will be in the units. StackSets create
  # nothing in the management account; apply modules/member there if it has machines.
  member_organizational_unit_ids = var.organizational_unit_ids
  member_stack_set_call_as       = var.call_as
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

output "sender_policies" {
  description = "Policies for the roles of nodes in other accounts."
  value       = module.ebb.sender_policies
}
