# Alarms, dashboard and budget of the deployment.

module "observability" {
  source = "./modules/observability"

  name                    = var.name
  tags                    = local.tags
  sweeps                  = [for shard in range(var.shards) : { function_name = local.sweeper_names[shard], queue_name = local.queue_names[shard] }]
  dead_letter_queue_name  = local.dead_letters_name
  api_id                  = aws_apigatewayv2_api.tune.id
  sweep_interval_minutes  = var.schedule_state == "ENABLED" ? var.sweep_interval_minutes : null
  sweeper_timeout_seconds = var.sweeper_timeout_seconds
  alarms                  = var.alarms
  silent_probes           = var.alarm_silent_probes
  topic_arn               = var.alarm_topic_arn
  emails                  = var.alarm_emails
  dashboard               = var.dashboard
  monthly_budget_usd      = var.monthly_budget_usd
}
