output "bucket" {
  value = module.ebb.bucket
}

output "queue_url" {
  value = module.ebb.queue_url
}

output "dead_letter_queue_url" {
  value = module.ebb.dead_letter_queue_url
}

# module.ebb.api_url names a host below .localhost, which not every resolver
# knows; the simulator answers to this path as well.
output "api_url" {
  value = "${var.platform_endpoint}/_aws/execute-api/${module.ebb.api_id}/$default"
}

output "node_role_arn" {
  value = module.ebb.node_role_arn
}

output "node_instance_profile" {
  value = module.ebb.node_instance_profile
}

output "sweeper_function_name" {
  value = module.ebb.sweeper_function_name
}

output "tune_function_name" {
  value = module.ebb.tune_function_name
}
