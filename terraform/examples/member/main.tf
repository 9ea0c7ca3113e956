# Another account that lets itself be looked at; apply it there, or in every account of
# the organization by a StackSet of what it makes.

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
