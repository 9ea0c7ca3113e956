# The function of the recommendation API. It reads reports and writes only decisions.

resource "aws_cloudwatch_log_group" "tune" {
  #checkov:skip=CKV_AWS_158:CloudWatch encrypts logs with its own key. They contain no secret.
  #checkov:skip=CKV_AWS_338:log_retention_days is the choice of the user.
  name              = "/aws/lambda/${local.tune_name}"
  retention_in_days = var.log_retention_days
  tags              = local.tags
}

resource "aws_lambda_function" "tune" {
  #checkov:skip=CKV_AWS_50:The access log of the gateway has the latency of each request. Tracing would need a permission.
  #checkov:skip=CKV_AWS_115:The gateway limits requests. A reserved part can fail in an account with a low limit.
  #checkov:skip=CKV_AWS_116:The gateway waits for each answer, so no event can be lost.
  #checkov:skip=CKV_AWS_117:The function reads one bucket. A VPC would need an endpoint for S3.
  #checkov:skip=CKV_AWS_173:Lambda encrypts variables with its own key. Only roles with lambda:GetFunctionConfiguration can read them.
  #checkov:skip=CKV_AWS_272:The user builds the package or states its checksum; source_code_hash pins its content.
  function_name    = local.tune_name
  description      = "Ebb: what each step should run on instead."
  role             = aws_iam_role.tune.arn
  filename         = local.packages.tune
  source_code_hash = local.sha256_base64.tune
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [local.architecture.tune]
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

  depends_on = [aws_cloudwatch_log_group.tune, aws_iam_role_policy.tune, terraform_data.release]
}
