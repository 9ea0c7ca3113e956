output "bucket" {
  description = "Bucket of the lake, the reports and the configuration."
  value       = aws_s3_bucket.ebb.id
}

output "queue_url" {
  description = "Queue for heartbeats; with several shards all queues, separated by commas."
  value       = local.queue_url
}

output "region" {
  description = "Region of bucket and queues."
  value       = local.region
}

output "dead_letter_queue_url" {
  description = "Queue of refused messages with their reasons."
  value       = aws_sqs_queue.dead_letters.url
}

output "api_url" {
  description = "URL of the tune API."
  value       = aws_apigatewayv2_api.tune.api_endpoint
}

output "api_id" {
  description = "Identifier of the tune API."
  value       = aws_apigatewayv2_api.tune.id
}

output "node_role_arn" {
  description = "Role for a machine that runs the probe."
  value       = aws_iam_role.node.arn
}

output "node_policy_arn" {
  description = "Policy with the permissions of node_role_arn, for an existing role of an instance; null without senders.ec2."
  value       = one(aws_iam_policy.node[*].arn)
}

output "sender_policy_arns" {
  description = "Policies of the other kinds of senders, by kind, for roles in this account."
  value       = { for kind, policy in aws_iam_policy.sender : kind => policy.arn }
}

output "sender_policies" {
  description = "Policies of all kinds of senders as JSON, by kind, for roles in other accounts."
  value       = { for kind, document in data.aws_iam_policy_document.sender : kind => document.json }
}

output "node_instance_profile" {
  description = "Instance profile of node_role_arn."
  value       = aws_iam_instance_profile.node.name
}

output "node_user_data" {
  description = "User data that installs the probe, for instances and launch templates, also of AWS Batch; null without a package of the probe."
  value       = one(module.probe[*].user_data)
}

output "probe" {
  description = "Package of the probe and where it sends: input package of modules/probe in this account and in others; null without a package of the probe."
  value       = local.probe
}

output "sweeper_function_name" {
  description = "Lambda function of the sweep. Invoke it for a sweep now. With several shards, the function that reports."
  value       = aws_lambda_function.sweeper[0].function_name
}

output "tune_function_name" {
  description = "Lambda function of the tune API."
  value       = aws_lambda_function.tune.function_name
}

output "sweeper_role_arn" {
  description = "Role of the sweeper, which the roles of member accounts trust."
  value       = aws_iam_role.sweeper.arn
}

output "alarm_topic_arn" {
  description = "SNS topic that receives alarms and messages of the budget; null without both."
  value       = module.observability.topic_arn

  precondition {
    condition     = var.alarm_topic_arn == null || length(var.alarm_emails) == 0
    error_message = "Addresses subscribe only to the topic of the module: set either alarm_emails or alarm_topic_arn."
  }

  precondition {
    condition     = length(var.alarm_emails) == 0 || var.alarms || var.monthly_budget_usd != null
    error_message = "alarm_emails receive nothing without alarms and without monthly_budget_usd: set alarms = true or remove alarm_emails."
  }
}

output "alarm_names" {
  description = "Names of the alarms about Ebb itself."
  value       = module.observability.alarm_names
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null without it."
  value       = module.observability.dashboard_name
}

output "athena_workgroup" {
  description = "Workgroup of Athena for the lake; null without athena."
  value       = one(module.athena[*].workgroup)
}

output "athena_database" {
  description = "Database in Glue with the tables of the lake; null without athena."
  value       = one(module.athena[*].database)
}

output "analyst_policy_arn" {
  description = "Policy for people who query the lake with Athena; it only reads. Null without athena."
  value       = one(module.athena[*].analyst_policy_arn)
}

output "member_template" {
  description = "CloudFormation template of the role in member accounts, for a StackSet. It equals terraform/modules/member."
  value       = file("${path.module}/modules/member/template.json")
}
