# The function of the recommendation API. It reads reports and writes only decisions.

resource "aws_cloudwatch_log_group" "tune" {
  name              = "/aws/lambda/${local.tune_name}"
  retention_in_days = var.log_retention_days
  tags              = local.tags
}

resource "aws_lambda_function" "tune" {
  function_name    = local.tune_name
  description      = "Ebb: what each step should run on instead."
  role             = aws_iam_role.tune.arn
  filename         = var.tune_package
  source_code_hash = filebase64sha256(var.tune_package)
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [var.architecture]
  memory_size      = var.tune_memory_mb
  timeout          = var.tune_timeout_seconds
  tags             = local.tags

  environment {
    variables = merge(
      { EBB_BUCKET = aws_s3_bucket.ebb.id },
      local.has_slack_actions ? { EBB_SLACK_SIGNING_SECRET = var.slack_signing_secret } : {},
      local.has_pages ? { EBB_PAGES_SECRET = var.pages_secret } : {},
      var.extra_environment,
    )
  }

  depends_on = [aws_cloudwatch_log_group.tune, aws_iam_role_policy.tune]
}
