# Queues for heartbeats, one for each shard. The sweep moves invalid messages to the dead-letter
# queue with a reason; the redrive policy is only a fallback.

locals {
  retention_seconds = 14 * 24 * 60 * 60

  # A failed sweep returns its whole batch. With a sweep every ten minutes, a valid message stays
  # in the queue for a week of failed sweeps.
  max_receive_count = 1000

  # The first queue has the same name as the only queue without shards.
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

  # Messages stay hidden until the sweep that received them has ended.
  visibility_timeout_seconds = var.sweeper_timeout_seconds + 30

  lifecycle {
    precondition {
      condition     = local.queue_conditions <= 10
      error_message = "SQS accepts 10 conditions in a policy. Use organization_id without role_arns of other accounts, or fewer kinds of senders."
    }
  }
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

  # The statements above require the proof.
  dynamic "statement" {
    for_each = local.foreign_senders

    content {
      sid       = "Allow${statement.key}"
      actions   = ["sqs:SendMessage"]
      resources = [local.queue_arns[count.index]]

      principals {
        type        = "AWS"
        identifiers = statement.value.principals
      }

      condition {
        test     = statement.value.test
        variable = statement.value.key
        values   = statement.value.values
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

# A separate resource, so that all queues are created in parallel; the provider waits 25 s for
# each.
resource "aws_sqs_queue_redrive_policy" "heartbeats" {
  count = var.shards

  queue_url = aws_sqs_queue.heartbeats[count.index].id

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = local.max_receive_count
  })
}
