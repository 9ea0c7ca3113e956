# Schedule of the sweep.

data "aws_iam_policy_document" "assume_scheduler" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }

    # Scheduler passes the group of a schedule, not the schedule.
    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:scheduler:${local.region}:${local.account}:schedule-group/default"]
    }
  }
}

resource "aws_iam_role" "schedule" {
  name                 = "${var.name}-schedule"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "EventBridge Scheduler: invokes the Ebb sweeper."
  assume_role_policy   = data.aws_iam_policy_document.assume_scheduler.json
  tags                 = local.tags
}

resource "aws_iam_role_policy" "schedule" {
  name   = "invoke-sweeper"
  role   = aws_iam_role.schedule.id
  policy = data.aws_iam_policy_document.schedule.json
}

data "aws_iam_policy_document" "schedule" {
  statement {
    actions   = ["lambda:InvokeFunction"]
    resources = [for function in local.sweeper_names : "${local.function_arn_prefix}:${function}"]
  }
}

resource "aws_scheduler_schedule" "sweep" {
  #checkov:skip=CKV_AWS_297:A schedule contains two ARNs and a rate, no data.
  count = var.shards

  name                = "${var.name}-sweep${local.shard_suffix[count.index]}"
  description         = "Ebb: one sweep of the account."
  schedule_expression = "rate(${var.sweep_interval_minutes} ${var.sweep_interval_minutes == 1 ? "minute" : "minutes"})"
  state               = var.schedule_state

  flexible_time_window {
    mode = "OFF"
  }

  # The next sweep continues the work, so a late retry has no use.
  target {
    arn      = aws_lambda_function.sweeper[count.index].arn
    role_arn = aws_iam_role.schedule.arn

    retry_policy {
      maximum_retry_attempts       = 0
      maximum_event_age_in_seconds = 60
    }
  }
}

resource "aws_lambda_function_event_invoke_config" "sweeper" {
  count = var.shards

  function_name                = aws_lambda_function.sweeper[count.index].function_name
  maximum_retry_attempts       = 0
  maximum_event_age_in_seconds = 60
}
