# The role that the sweeper assumes in another account. It permits reading only.

locals {
  permissions = jsondecode(file("${path.module}/../../permissions.json"))
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "AWS"
      identifiers = [var.sweeper_role_arn]
    }

    dynamic "condition" {
      for_each = var.external_id == null ? [] : [var.external_id]

      content {
        test     = "StringEquals"
        variable = "sts:ExternalId"
        values   = [condition.value]
      }
    }

    dynamic "condition" {
      for_each = var.organization_id == null ? [] : [var.organization_id]

      content {
        test     = "StringEquals"
        variable = "aws:PrincipalOrgID"
        values   = [condition.value]
      }
    }
  }
}

data "aws_iam_policy_document" "read" {
  statement {
    sid       = "ReadInventoryMetricsAndCost"
    resources = ["*"]

    actions = concat(
      local.permissions.inventory,
      local.permissions.metrics,
      local.permissions.bill,
      local.permissions.second_opinion,
    )
  }
}

resource "aws_iam_role" "member" {
  name                 = var.role_name
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "Read-only access of Ebb to this account."
  assume_role_policy   = data.aws_iam_policy_document.assume.json
  tags                 = var.tags
}

resource "aws_iam_role_policy" "read" {
  name   = "read"
  role   = aws_iam_role.member.id
  policy = data.aws_iam_policy_document.read.json
}
