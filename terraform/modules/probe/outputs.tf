output "user_data" {
  description = "User data that installs the probe, for instances and launch templates, also of AWS Batch."
  value       = local.user_data
}

output "install_script" {
  description = "Shell script that installs the probe, for images and configuration management; run it as root on a node."
  value       = local.script
}

output "document_name" {
  description = "Document of Systems Manager that installs the probe; null without targets."
  value       = one(aws_ssm_document.install[*].name)
}
