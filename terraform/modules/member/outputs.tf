output "role_arn" {
  description = "The role that the sweeper assumes here."
  value       = aws_iam_role.member.arn
}
