# One other account that the sweeper may read. Apply this in that account. The example multi-account
# creates the role in all accounts of an organization.

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

variable "sweeper_role_arn" {
  description = "Output sweeper_role_arn of the deployment."
  type        = string
}

module "ebb_member" {
  source = "../../modules/member"

  sweeper_role_arn = var.sweeper_role_arn
}

output "role_arn" {
  description = "The role that the sweeper assumes here."
  value       = module.ebb_member.role_arn
}
