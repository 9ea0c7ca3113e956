output "topic_arn" {
  description = "SNS topic that receives the alarms; null without alarms and budget."
  value       = local.has_messages ? local.topic_arn : null
}

output "alarm_names" {
  description = "Names of the alarms."
  value       = sort([for alarm in aws_cloudwatch_metric_alarm.ebb : alarm.alarm_name])
}

output "dashboard_name" {
  description = "Name of the dashboard; null without it."
  value       = one(aws_cloudwatch_dashboard.ebb[*].dashboard_name)
}
