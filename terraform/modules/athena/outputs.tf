output "workgroup" {
  description = "Workgroup of Athena for the lake."
  value       = aws_athena_workgroup.lake.name
}

output "database" {
  description = "Database in Glue with the tables of the lake."
  value       = aws_glue_catalog_database.lake.name
}

output "analyst_policy_arn" {
  description = "Policy that lets its owner query the lake and change nothing."
  value       = aws_iam_policy.analyst.arn
}
