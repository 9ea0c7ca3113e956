# Alarms. Each costs 0.10 USD a month. Missing data is no problem, except for the alarm that
# detects missing sweeps.

locals {
  # Metrics of Lambda arrive with a delay of some minutes, so shorter periods raise false alarms.
  minimum_period_seconds = 300

  # The longest period of an alarm. With longer intervals, CloudWatch cannot detect missing sweeps.
  maximum_period_seconds = 86400

  interval_seconds = 60 * coalesce(var.sweep_interval_minutes, 10)
  period_seconds   = min(max(local.interval_seconds, local.minimum_period_seconds), local.maximum_period_seconds)

  # A message waits for one sweep, and returns to the queue if that sweep fails. SQS does not measure the age
  # of messages that were received three times or more. Source: "Available CloudWatch metrics for Amazon SQS".
  queue_age_seconds = max(3600, 4 * local.interval_seconds)

  # A sweep stops receiving after 60 % of its timeout, so 80 % is late.
  late_fraction = 0.8

  detects_missing_sweeps = var.sweep_interval_minutes != null && local.interval_seconds <= local.maximum_period_seconds

  sweeps = { for shard, sweep in var.sweeps : (shard == 0 ? "" : "-${shard}") => sweep }

  alarms_of_sweeps = merge(
    local.detects_missing_sweeps ? {
      no-sweep = {
        description = "No sweep started in two intervals. Check the schedule, its role, and the reserved concurrency of the function."
        namespace   = "AWS/Lambda"
        metric      = "Invocations"
        statistic   = "Sum"
        comparison  = "LessThanThreshold"
        threshold   = 1
        period      = local.period_seconds
        periods     = 2
        datapoints  = 2
        missing     = "breaching"
      }
    } : {},
    {
      failed-sweeps = {
        description = "Two of the last three sweeps failed. The log group of the function contains the reason. No data is lost: messages return to the queue."
        namespace   = "AWS/Lambda"
        metric      = "Errors"
        statistic   = "Sum"
        comparison  = "GreaterThanThreshold"
        threshold   = 0
        period      = local.period_seconds
        periods     = 3
        datapoints  = 2
        missing     = "notBreaching"
      }
      slow-sweeps = {
        description = "Two of the last three sweeps took at least 80 % of their timeout. Raise sweeper_memory_mb, sweeper_timeout_seconds or shards."
        namespace   = "AWS/Lambda"
        metric      = "Duration"
        statistic   = "Maximum"
        comparison  = "GreaterThanOrEqualToThreshold"
        threshold   = local.late_fraction * 1000 * var.sweeper_timeout_seconds
        period      = local.period_seconds
        periods     = 3
        datapoints  = 2
        missing     = "notBreaching"
      }
      queue-age = {
        description = "The oldest heartbeat waits for more than four sweeps and an hour: sweeps are too slow or do not run. SQS leaves out messages that were received three times or more, which the alarm failed-sweeps covers. SQS deletes messages after 14 days."
        namespace   = "AWS/SQS"
        metric      = "ApproximateAgeOfOldestMessage"
        statistic   = "Maximum"
        comparison  = "GreaterThanThreshold"
        threshold   = local.queue_age_seconds
        period      = 300
        periods     = 3
        datapoints  = 3
        missing     = "notBreaching"
      }
    },
  )

  alarms_of_shards = merge([
    for suffix, sweep in local.sweeps : {
      for name, alarm in local.alarms_of_sweeps : "${name}${suffix}" => merge(alarm, {
        dimensions = alarm.namespace == "AWS/SQS" ? { QueueName = sweep.queue_name } : { FunctionName = sweep.function_name }
      })
    }
  ]...)

  alarms = merge(local.alarms_of_shards, {
    dead-letters = {
      description = "The dead-letter queue contains messages that a sweep refused. Each has its reason as an attribute. Delete them after you have read them."
      namespace   = "AWS/SQS"
      metric      = "ApproximateNumberOfMessagesVisible"
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      period      = 300
      periods     = 1
      datapoints  = 1
      missing     = "notBreaching"
      dimensions  = { QueueName = var.dead_letter_queue_name }
    }
    failed-notifications = {
      description = "Notifications failed in two of three periods. The report lists the channels and reasons under Missing data, and so does the log group of the first sweeper. The next sweep sends again."
      namespace   = "Ebb"
      metric      = "NotificationFailures"
      statistic   = "Sum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      period      = local.period_seconds
      periods     = 3
      datapoints  = 2
      missing     = "notBreaching"
      dimensions  = { FunctionName = var.sweeps[0].function_name }
    }
    silent-probes = {
      description = "In two of the last three sweeps, at least ${var.silent_probes} probes were silent while their instances run. Nodes that fall silent at the same time usually lost their network, their role or a new version of the probe. `ebb probes` lists the nodes."
      namespace   = "Ebb"
      metric      = "ProbesSilent"
      statistic   = "Maximum"
      comparison  = "GreaterThanOrEqualToThreshold"
      threshold   = var.silent_probes
      period      = local.period_seconds
      periods     = 3
      datapoints  = 2
      missing     = "notBreaching"
      dimensions  = { FunctionName = var.sweeps[0].function_name }
    }
    api-errors = {
      description = "The tune API answered with status 500 or higher in two of three periods of 5 minutes. Its access log contains the routes."
      namespace   = "AWS/ApiGateway"
      metric      = "5xx"
      statistic   = "Sum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      period      = 300
      periods     = 3
      datapoints  = 2
      missing     = "notBreaching"
      dimensions  = { ApiId = var.api_id }
    }
  })
}

resource "aws_cloudwatch_metric_alarm" "ebb" {
  for_each = var.alarms ? local.alarms : {}

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  period              = each.value.period
  evaluation_periods  = each.value.periods
  datapoints_to_alarm = each.value.datapoints
  treat_missing_data  = each.value.missing
  alarm_actions       = [local.topic_arn]
  ok_actions          = [local.topic_arn]
  tags                = var.tags
}
