# The role of member accounts in each account that is or will be in some organizational units, by a
# CloudFormation StackSet. Its template creates the same role as ../member.

data "aws_region" "current" {}

resource "aws_cloudformation_stack_set" "members" {
  name             = var.role_name
  description      = "Ebb: read-only access to this account."
  permission_model = "SERVICE_MANAGED"
  call_as          = var.call_as
  capabilities     = ["CAPABILITY_NAMED_IAM"]
  template_body    = file("${path.module}/../member/template.json")
  tags             = var.tags

  parameters = {
    SweeperRoleArn          = var.sweeper_role_arn
    RoleName                = var.role_name
    Path                    = var.iam_path
    PermissionsBoundaryName = var.permissions_boundary_name == null ? "" : var.permissions_boundary_name
    ExternalId              = var.external_id == null ? "" : var.external_id
    OrganizationId          = var.organization_id == null ? "" : var.organization_id
  }

  auto_deployment {
    enabled                          = true
    retain_stacks_on_account_removal = false
  }

  # All accounts at once, and an account that refuses the role stops no other one. By default, AWS takes
  # one account after the other and stops at the first failure.
  operation_preferences {
    failure_tolerance_percentage = 100
    max_concurrent_percentage    = 100
    region_concurrency_type      = "PARALLEL"
  }

  timeouts {
    update = "2h"
  }

  lifecycle {
    # AWS sets this role only for StackSets that manage their own permissions.
    ignore_changes = [administration_role_arn]
  }
}

# A role is global, so one region is enough.
resource "aws_cloudformation_stack_set_instance" "members" {
  stack_set_name = aws_cloudformation_stack_set.members.name
  region         = data.aws_region.current.name
  call_as        = var.call_as

  deployment_targets {
    organizational_unit_ids = var.organizational_unit_ids
  }

  operation_preferences {
    failure_tolerance_percentage = 100
    max_concurrent_percentage    = 100
    region_concurrency_type      = "PARALLEL"
  }

  # Hundreds of accounts take longer than the 30 minutes of the provider.
  timeouts {
    create = "2h"
    update = "2h"
    delete = "2h"
  }
}
