# Observability of Ebb itself: alarms, a topic for them, a dashboard and a budget. Metrics of the
# namespace Ebb come from lines in the log of the first sweeper, so they need no permission; see
# sweeper-lambda/src/metrics.rs. All others are published by AWS and cost nothing.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name

  topic_name    = "${var.name}-alarms"
  has_messages  = var.alarms || var.monthly_budget_usd != null
  creates_topic = local.has_messages && var.topic_arn == null
  topic_arn     = local.creates_topic ? aws_sns_topic.alarms[0].arn : var.topic_arn

  # Built from the name, so that a plan shows the complete policy before the topic exists.
  created_topic_arn = "arn:${local.partition}:sns:${local.region}:${local.account}:${local.topic_name}"
}

resource "aws_sns_topic" "alarms" {
  #checkov:skip=CKV_AWS_26:CloudWatch and Budgets cannot publish to a topic with the key alias/aws/sns, and a key of its own costs more than all alarms. Messages contain names and numbers of the deployment, no data of nodes.
  count = local.creates_topic ? 1 : 0

  name = local.topic_name
  tags = var.tags
}

resource "aws_sns_topic_policy" "alarms" {
  count = length(aws_sns_topic.alarms)

  arn    = aws_sns_topic.alarms[0].arn
  policy = data.aws_iam_policy_document.topic.json
}

data "aws_iam_policy_document" "topic" {
  # Sources: "Use cases for Amazon SNS access control" (CloudWatch alarms) and "Creating an Amazon
  # SNS topic for budget notifications".
  dynamic "statement" {
    for_each = {
      PublishAlarms  = { service = "cloudwatch", source = "cloudwatch:${local.region}:${local.account}:alarm:${var.name}-*" }
      PublishBudgets = { service = "budgets", source = "budgets::${local.account}:*" }
    }

    content {
      sid       = statement.key
      actions   = ["sns:Publish"]
      resources = [local.created_topic_arn]

      principals {
        type        = "Service"
        identifiers = ["${statement.value.service}.amazonaws.com"]
      }

      condition {
        test     = "StringEquals"
        variable = "aws:SourceAccount"
        values   = [local.account]
      }

      condition {
        test     = "ArnLike"
        variable = "aws:SourceArn"
        values   = ["arn:${local.partition}:${statement.value.source}"]
      }
    }
  }

  statement {
    sid       = "DenyInsecureTransport"
    effect    = "Deny"
    actions   = ["sns:Publish"]
    resources = [local.created_topic_arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

# SNS sends each address a message with a link that confirms the subscription.
resource "aws_sns_topic_subscription" "email" {
  for_each = local.creates_topic ? toset(var.emails) : []

  topic_arn = aws_sns_topic.alarms[0].arn
  protocol  = "email"
  endpoint  = each.value
}
