# The dashboard: sweeps, queues and the API.

locals {
  widgets = {
    Sweeps = [
      for sweep in var.sweeps : ["AWS/Lambda", "Invocations", "FunctionName", sweep.function_name, { stat = "Sum" }]
    ]
    "Failed sweeps" = [
      for sweep in var.sweeps : ["AWS/Lambda", "Errors", "FunctionName", sweep.function_name, { stat = "Sum" }]
    ]
    "Longest sweep in milliseconds" = [
      for sweep in var.sweeps : ["AWS/Lambda", "Duration", "FunctionName", sweep.function_name, { stat = "Maximum" }]
    ]
    "Waiting heartbeat messages" = [
      for sweep in var.sweeps : ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", sweep.queue_name, { stat = "Maximum" }]
    ]
    "Age of the oldest message in seconds" = [
      for sweep in var.sweeps : ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", sweep.queue_name, { stat = "Maximum" }]
    ]
    "Refused messages" = [
      ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", var.dead_letter_queue_name, { stat = "Maximum" }],
    ]
    "Findings" = [
      ["Ebb", "Findings", "FunctionName", var.sweeps[0].function_name, { stat = "Maximum" }],
    ]
    "Failed notifications and writes" = [
      for metric in ["NotificationFailures", "WriteFailures"] : ["Ebb", metric, "FunctionName", var.sweeps[0].function_name, { stat = "Sum" }]
    ]
    "Requests to the API" = [
      for metric in ["Count", "4xx", "5xx"] : ["AWS/ApiGateway", metric, "ApiId", var.api_id, { stat = "Sum" }]
    ]
    "Latency of the API in milliseconds" = [
      for stat in ["p50", "p99"] : ["AWS/ApiGateway", "Latency", "ApiId", var.api_id, { stat = stat }]
    ]
  }

  # The order on the page; the dashboard has 24 columns.
  titles = [
    "Sweeps", "Failed sweeps", "Longest sweep in milliseconds", "Waiting heartbeat messages",
    "Age of the oldest message in seconds", "Refused messages", "Findings", "Failed notifications and writes",
    "Requests to the API", "Latency of the API in milliseconds",
  ]
}

resource "aws_cloudwatch_dashboard" "ebb" {
  count = var.dashboard ? 1 : 0

  dashboard_name = var.name
  dashboard_body = jsonencode({
    widgets = [
      for index, title in local.titles : {
        type   = "metric"
        x      = index % 2 * 12
        y      = floor(index / 2) * 6
        width  = 12
        height = 6
        properties = {
          title   = title
          region  = local.region
          view    = "timeSeries"
          period  = local.period_seconds
          metrics = local.widgets[title]
        }
      }
    ]
  })
}
