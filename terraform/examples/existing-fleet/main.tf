# Probes on machines that exist already: all instances with a tag, and container instances of ECS, by Systems
# Manager. New machines of AWS Batch and of an Auto Scaling group get it by their launch templates.

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

variable "node_roles" {
  description = "Names of the existing roles of your instances, such as that of AWS Batch."
  type        = set(string)
}

variable "ecs_groups" {
  description = "Names of the Auto Scaling groups with the container instances of ECS."
  type        = list(string)
}

variable "image_id" {
  description = "Image of new machines."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the Auto Scaling group."
  type        = list(string)
}

variable "instance_profile" {
  description = "Existing instance profile of the Auto Scaling group."
  type        = string
}

module "ebb" {
  source = "../.."

  sweeper_package = var.sweeper_package
  tune_package    = var.tune_package
  probe_package   = var.probe_package
}

# The permission to send and to download the probe.
resource "aws_iam_role_policy_attachment" "node" {
  for_each = var.node_roles

  role       = each.value
  policy_arn = module.ebb.node_policy_arn
}

# Running instances.
module "ebb_probe" {
  source = "../../modules/probe"

  package = module.ebb.probe
  targets = { "tag:team" = ["research"] }
}

# Container instances of ECS on EC2. AWS tags each instance with its Auto Scaling group. Images that are
# optimized for ECS contain the agent of Systems Manager.
module "ebb_probe_ecs" {
  source = "../../modules/probe"

  name    = "ebb-ecs"
  package = module.ebb.probe
  targets = { "tag:aws:autoscaling:groupName" = var.ecs_groups }
}

# For `launchTemplate` of a compute environment of AWS Batch, with the version $Latest. Batch chooses the
# image.
resource "aws_launch_template" "batch" {
  name      = "batch-with-probe"
  user_data = base64encode(module.ebb_probe.user_data)

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
}

resource "aws_launch_template" "workers" {
  name          = "workers-with-probe"
  image_id      = var.image_id
  instance_type = "m7g.large"
  user_data     = base64encode(module.ebb_probe.user_data)

  iam_instance_profile {
    name = var.instance_profile
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
}

# A new version of the template replaces the instances.
resource "aws_autoscaling_group" "workers" {
  name                = "workers"
  min_size            = 0
  max_size            = 10
  vpc_zone_identifier = var.subnet_ids

  launch_template {
    id      = aws_launch_template.workers.id
    version = aws_launch_template.workers.latest_version
  }

  instance_refresh {
    strategy = "Rolling"
  }

  tag {
    key                 = "team"
    value               = "research"
    propagate_at_launch = true
  }
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
