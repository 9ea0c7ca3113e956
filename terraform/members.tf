# Roles in the accounts of organizational units; see modules/member-stack-set.

module "members" {
  source = "./modules/member-stack-set"
  count  = length(var.member_organizational_unit_ids) > 0 ? 1 : 0

  sweeper_role_arn          = aws_iam_role.sweeper.arn
  organizational_unit_ids   = var.member_organizational_unit_ids
  call_as                   = var.member_stack_set_call_as
  role_name                 = var.member_role_name
  iam_path                  = var.member_iam_path
  permissions_boundary_name = var.member_permissions_boundary_name
  external_id               = var.member_external_id
  organization_id           = local.organization_id
  tags                      = local.tags
}
