output "stack_set_name" {
  description = "Name of the StackSet."
  value       = aws_cloudformation_stack_set.members.name
}
