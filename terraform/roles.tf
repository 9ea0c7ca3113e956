# Permissions. The functions only read the account. They write only to the bucket and queues of
# the deployment.

# API calls of the functions, generated from the code (crates/cloud/src/permissions.rs).
locals {
  permissions   = jsondecode(file("${path.module}/permissions.json"))
  named_members = [for account in var.member_accounts : account if account != "organization"]

  # The path and name of the role in each member account, as in its ARN.
  member_role = "${trimprefix(var.member_iam_path, "/")}${var.member_role_name}"
}

# Lambda documents no source account or ARN for execution roles, so this has no
# condition. IAM lets only principals of this account pass the role to a function.
data "aws_iam_policy_document" "assume_lambda" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "sweeper" {
  name                 = local.sweeper_name
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "Ebb sweeper: reads the account, writes its own bucket and queues."
  assume_role_policy   = data.aws_iam_policy_document.assume_lambda.json
  tags                 = local.tags
}

# S3 names no account in its ARNs. `aws:ResourceAccount` prevents the
# use of a bucket with the same name in another account after this one was deleted.
resource "aws_iam_role_policy" "sweeper" {
  name   = "sweep"
  role   = aws_iam_role.sweeper.id
  policy = data.aws_iam_policy_document.sweeper.json
}

data "aws_iam_policy_document" "sweeper" {
  # These actions are read-only and cannot be limited to a resource.
  statement {
    sid       = "ReadInventory"
    resources = ["*"]
    actions   = concat(local.permissions.inventory, local.permissions.prices)
  }

  statement {
    sid       = "ReadMetricsAndCost"
    resources = ["*"]
    actions   = concat(local.permissions.metrics, local.permissions.bill, local.permissions.second_opinion)
  }

  dynamic "statement" {
    for_each = contains(var.member_accounts, "organization") ? [true] : []

    content {
      sid       = "ListAccounts"
      resources = ["*"]
      actions   = ["organizations:ListAccounts"]
    }
  }

  # terraform/modules/member creates the role in each of these accounts.
  dynamic "statement" {
    for_each = length(local.named_members) > 0 ? [true] : []

    content {
      sid     = "EnterMembers"
      actions = ["sts:AssumeRole"]

      resources = [
        for account in local.named_members :
        "arn:${local.partition}:iam::${account}:role/${local.member_role}"
      ]
    }
  }

  # No account is listed, so the policy is limited to the organization of the sweeper.
  dynamic "statement" {
    for_each = contains(var.member_accounts, "organization") ? [true] : []

    content {
      sid       = "EnterOrganization"
      actions   = ["sts:AssumeRole"]
      resources = ["arn:${local.partition}:iam::*:role/${local.member_role}"]

      condition {
        test     = "StringEquals"
        variable = "aws:ResourceOrgID"
        values   = ["$${aws:PrincipalOrgID}"]
      }
    }
  }

  statement {
    sid       = "TakeHeartbeats"
    actions   = ["sqs:DeleteMessage", "sqs:ReceiveMessage"]
    resources = local.queue_arns
  }

  statement {
    sid       = "RefuseWithReason"
    actions   = ["sqs:SendMessage"]
    resources = [local.dead_letters_arn]
  }

  # Without this permission, S3 reports a missing object as forbidden, and the first sweep could
  # not distinguish a missing state from a missing permission.
  statement {
    sid       = "ListBucket"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket_arn]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "ReadBucket"
    actions   = ["s3:GetObject"]
    resources = ["${local.bucket_arn}/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  # Exports of the bill, which `[costs] export` of the policy names.
  dynamic "statement" {
    for_each = var.cost_export_bucket == null ? [] : [var.cost_export_bucket]

    content {
      sid       = "ListCostExport"
      actions   = ["s3:ListBucket"]
      resources = ["arn:${local.partition}:s3:::${statement.value}"]
    }
  }

  dynamic "statement" {
    for_each = var.cost_export_bucket == null ? [] : [var.cost_export_bucket]

    content {
      sid       = "ReadCostExport"
      actions   = ["s3:GetObject"]
      resources = ["arn:${local.partition}:s3:::${statement.value}/*"]
    }
  }

  statement {
    sid     = "WriteBucket"
    actions = ["s3:PutObject"]

    resources = [
      for folder in ["dead-letter", "details", "lake", "reports", "state"] :
      "${local.bucket_arn}/${folder}/*"
    ]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  # Only the lake has files that are uploaded in parts.
  statement {
    sid       = "AbortUploads"
    actions   = ["s3:AbortMultipartUpload"]
    resources = ["${local.bucket_arn}/lake/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  # The upkeep of the lake deletes files that were merged or whose retention ended, and old commits.
  # A successful sweep deletes the list of items that it opened.
  statement {
    sid     = "DeleteWhatIsFolded"
    actions = ["s3:DeleteObject"]

    resources = [
      for folder in ["ingest", "lake", "state/opening"] :
      "${local.bucket_arn}/${folder}/*"
    ]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = [for function in local.sweeper_names : "${local.log_group_arn_prefix}/${function}:*"]
  }

  # Secrets Manager ends each ARN with a hyphen and six random characters.
  dynamic "statement" {
    for_each = local.has_slack ? [true] : []

    content {
      sid       = "ReadSlackWebhook"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = ["${local.secret_arn_prefix}/slack-webhook-??????"]
    }
  }

  dynamic "statement" {
    for_each = local.has_events ? [true] : []

    content {
      sid       = "ReadEventsWebhook"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = ["${local.secret_arn_prefix}/events-webhook-??????"]
    }
  }

  dynamic "statement" {
    for_each = local.has_webhooks ? [true] : []

    content {
      sid       = "ReadWebhooks"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = ["${local.secret_arn_prefix}/webhooks-??????"]
    }
  }

  # SES also checks the configuration set if the identity has a default one.
  dynamic "statement" {
    for_each = var.email_from == null ? [] : [var.email_from]

    content {
      sid     = "SendDigest"
      actions = ["ses:SendEmail"]
      resources = [
        for resource in concat(["configuration-set/*", "identity/*"], var.email_contact_list == null ? [] : ["contact-list/${var.email_contact_list}"]) :
        "arn:${local.partition}:ses:${local.region}:${local.account}:${resource}"
      ]

      condition {
        test     = "StringEquals"
        variable = "ses:FromAddress"
        values   = [statement.value]
      }
    }
  }

  # To check whether SES is in its sandbox.
  dynamic "statement" {
    for_each = var.email_from == null ? [] : ["account"]

    content {
      sid       = "AskForSandbox"
      actions   = ["ses:GetAccount"]
      resources = ["*"]
    }
  }

  dynamic "statement" {
    for_each = var.topic_arn == null ? [] : [var.topic_arn]

    content {
      sid       = "PublishChanges"
      actions   = ["sns:Publish"]
      resources = [statement.value]
    }
  }

  # SNS and S3 use the keys on behalf of the sweep: for messages to the topic and for exports of the bill.
  dynamic "statement" {
    for_each = length(var.kms_key_arns) > 0 ? [true] : []

    content {
      sid       = "UseKeys"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = var.kms_key_arns
    }
  }
}

resource "aws_iam_role" "tune" {
  name                 = local.tune_name
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "Ebb tune API: reads the reports and the prices, keeps what people decide."
  assume_role_policy   = data.aws_iam_policy_document.assume_lambda.json
  tags                 = local.tags
}

resource "aws_iam_role_policy" "tune" {
  name   = "tune"
  role   = aws_iam_role.tune.id
  policy = data.aws_iam_policy_document.tune.json
}

data "aws_iam_policy_document" "tune" {
  statement {
    sid       = "ListBucket"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket_arn]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid     = "ReadReportsAndPrices"
    actions = ["s3:GetObject"]

    resources = [
      for folder in ["details", "lake/catalogue", "reports"] :
      "${local.bucket_arn}/${folder}/*"
    ]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  # Decisions, which the sweep reads.
  statement {
    sid       = "KeepDecisions"
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = ["${local.bucket_arn}/decisions/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${local.log_group_arn_prefix}/${local.tune_name}:*"]
  }
}
