# Heartbeats arrive here, in a queue a shard. The sweep itself moves bad messages to the dead
# letters, with a reason; the redrive is only the last resort.

locals {
  retention_seconds = 14 * 24 * 60 * 60

  # A sweep that fails returns its whole batch. At one sweep every ten minutes
  # a good message outlives a week of failing sweeps before it is moved.
  max_receive_count = 1000

  # The first keeps the name that the only one has.
  shard_suffix = [for shard in range(var.shards) : shard == 0 ? "" : "-${shard}"]
}

resource "aws_sqs_queue" "heartbeats" {
  count = var.shards

  name                      = local.queue_names[count.index]
  message_retention_seconds = local.retention_seconds
  receive_wait_time_seconds = 1
  sqs_managed_sse_enabled   = true
  tags                      = local.tags

  # Part of the queue, because the provider watches a separate resource for another 25 s.
  policy = data.aws_iam_policy_document.queue[count.index].json

  # What a sweep took must stay hidden until that sweep has ended.
  visibility_timeout_seconds = var.sweeper_timeout_seconds + 30
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = local.dead_letters_name
  message_retention_seconds = local.retention_seconds
  sqs_managed_sse_enabled   = true
  policy                    = data.aws_iam_policy_document.dead_letters.json
  tags                      = local.tags
}

data "aws_iam_policy_document" "queue" {
  count = var.shards

  statement {
    sid       = "DenyInsecureTransport"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [local.queue_arns[count.index]]

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

  dynamic "statement" {
    for_each = local.refusals

    content {
      sid       = statement.key
      effect    = "Deny"
      actions   = ["sqs:SendMessage"]
      resources = [local.queue_arns[count.index]]

      principals {
        type        = "*"
        identifiers = ["*"]
      }

      dynamic "condition" {
        for_each = statement.value

        content {
          test     = condition.value.test
          variable = condition.value.key
          values   = condition.value.values
        }
      }
    }
  }

  # Of these accounts only the listed roles; the statements above ask for the proof.
  dynamic "statement" {
    for_each = length(local.foreign_role_arns) > 0 ? [true] : []

    content {
      sid       = "AllowRolesOfOtherAccounts"
      actions   = ["sqs:SendMessage"]
      resources = [local.queue_arns[count.index]]

      principals {
        type        = "AWS"
        identifiers = [for account in local.foreign_accounts : "arn:${local.partition}:iam::${account}:root"]
      }

      condition {
        test     = "ArnEquals"
        variable = "aws:PrincipalArn"
        values   = local.foreign_role_arns
      }
    }
  }
}

data "aws_iam_policy_document" "dead_letters" {
  statement {
    sid       = "DenyInsecureTransport"
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [local.dead_letters_arn]

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

# A resource of its own, so that all queues are created side by side: the
# provider watches each for 25 s.
resource "aws_sqs_queue_redrive_policy" "heartbeats" {
  count = var.shards

  queue_url = aws_sqs_queue.heartbeats[count.index].id

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = local.max_receive_count
  })
}
