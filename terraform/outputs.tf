output "bucket" {
  description = "Bucket of the lake, the reports and the configuration."
  value       = aws_s3_bucket.ebb.id
}

output "queue_url" {
  description = "Queue that probes send heartbeats to; of several shards all queues with commas between, as the probe takes them."
  value       = local.queue_url
}

output "dead_letter_queue_url" {
  description = "Queue of refused messages, each with its reason."
  value       = aws_sqs_queue.dead_letters.url
}

output "api_url" {
  description = "Where the tune API answers."
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
  description = "The same permissions, to attach to a role that an instance already has; null without senders.ec2."
  value       = one(aws_iam_policy.node[*].arn)
}

output "sender_policy_arns" {
  description = "Permissions of the other kinds of senders, by kind, to attach to their roles in this account."
  value       = { for kind, policy in aws_iam_policy.sender : kind => policy.arn }
}

output "sender_policies" {
  description = "Permissions of every kind of senders as JSON, by kind, for roles of other accounts."
  value       = { for kind, document in data.aws_iam_policy_document.sender : kind => document.json }
}

output "node_instance_profile" {
  description = "Instance profile of that role."
  value       = aws_iam_instance_profile.node.name
}

output "node_user_data" {
  description = "User data for an instance or launch template, Batch included, that installs the probe; null without probe_package."
  value       = local.node_user_data
}

output "sweeper_function_name" {
  description = "Lambda of the sweep; invoke it to sweep now. Of several shards the one that reports."
  value       = aws_lambda_function.sweeper[0].function_name
}

output "tune_function_name" {
  description = "Lambda behind the tune API."
  value       = aws_lambda_function.tune.function_name
}

output "sweeper_role_arn" {
  description = "Role of the sweeper, which member accounts let in."
  value       = aws_iam_role.sweeper.arn
}
