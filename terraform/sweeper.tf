# The sweep: receives heartbeats, stores them in the lake, evaluates and reports. Each shard has a
# function; the first reports for all.

resource "aws_cloudwatch_log_group" "sweeper" {
  #checkov:skip=CKV_AWS_158:CloudWatch encrypts logs with its own key. They contain no secret.
  #checkov:skip=CKV_AWS_338:log_retention_days is the choice of the user.
  count = var.shards

  name              = "/aws/lambda/${local.sweeper_names[count.index]}"
  retention_in_days = var.log_retention_days
  tags              = local.tags
}

resource "aws_lambda_function" "sweeper" {
  #checkov:skip=CKV_AWS_50:Lambda logs the duration of each sweep. Tracing would need a permission.
  #checkov:skip=CKV_AWS_116:An event of the schedule has no content, and the next sweep continues the work.
  #checkov:skip=CKV_AWS_117:The function uses APIs of AWS and notifications only. A VPC would need a NAT gateway.
  #checkov:skip=CKV_AWS_173:The variables contain names and ARNs. Secrets are in Secrets Manager.
  #checkov:skip=CKV_AWS_272:The user builds the package or states its checksum; source_code_hash pins its content.
  count = var.shards

  function_name    = local.sweeper_names[count.index]
  description      = "Ebb: what runs and is billed while nothing on it works."
  role             = aws_iam_role.sweeper.arn
  filename         = local.packages.sweeper
  source_code_hash = local.sha256_base64.sweeper
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [local.architecture.sweeper]
  memory_size      = var.sweeper_memory_mb
  timeout          = var.sweeper_timeout_seconds
  tags             = local.tags

  # One sweep at a time, because a second one would only compete for the state.
  reserved_concurrent_executions = var.sweeper_reserved_concurrency

  environment {
    variables = merge(
      {
        EBB_BUCKET                = aws_s3_bucket.ebb.id
        EBB_QUEUE_URL             = aws_sqs_queue.heartbeats[count.index].url
        EBB_DEAD_LETTER_QUEUE_URL = aws_sqs_queue.dead_letters.url
        EBB_POLICY_KEY            = local.policy_key
        EBB_REGIONS               = join(",", var.regions)
        EBB_ACCOUNTS              = join(",", var.member_accounts)
        EBB_ACCOUNT_ROLE          = local.member_role
        EBB_ACCOUNT_EXTERNAL_ID   = var.member_external_id == null ? "" : var.member_external_id
        EBB_SHARD                 = tostring(count.index)
        EBB_SHARDS                = tostring(var.shards)
        EBB_PAGES_URL             = var.pages_url
        EBB_INTERVAL_MINUTES      = var.schedule_state == "ENABLED" ? tostring(var.sweep_interval_minutes) : ""
        EBB_METRICS               = tostring(var.alarms || var.dashboard)
      },
      { for secret in aws_secretsmanager_secret.slack_webhook : "EBB_SLACK_WEBHOOK_SECRET_ARN" => secret.arn },
      { for secret in aws_secretsmanager_secret.events_webhook : "EBB_EVENTS_SECRET_ARN" => secret.arn },
      { for secret in aws_secretsmanager_secret.webhooks : "EBB_WEBHOOKS_SECRET_ARN" => secret.arn },
      var.email_from == null ? {} : {
        EBB_EMAIL_FROM = var.email_from
        EBB_EMAIL_TO   = join(",", var.email_to)
      },
      var.email_contact_list == null ? {} : { EBB_EMAIL_CONTACT_LIST = var.email_contact_list },
      var.topic_arn == null ? {} : { EBB_TOPIC_ARN = var.topic_arn },
      var.extra_environment,
    )
  }

  depends_on = [aws_cloudwatch_log_group.sweeper, aws_iam_role_policy.sweeper, terraform_data.release]

  lifecycle {
    precondition {
      condition     = local.uses_release ? alltrue([for path in [var.sweeper_package, var.tune_package, var.probe_package] : path == null]) : alltrue([for path in [var.sweeper_package, var.tune_package] : path != null])
      error_message = "Set either release, or both sweeper_package and tune_package. With release, also probe_package must be null."
    }

    precondition {
      condition     = (var.email_from == null) == (length(var.email_to) == 0)
      error_message = "email_from and email_to belong together: set both, or neither."
    }

    precondition {
      condition     = nonsensitive((var.events_webhook_url == null) == (var.events_webhook_key == null))
      error_message = "events_webhook_url and events_webhook_key belong together: set both, or neither."
    }

    precondition {
      condition     = nonsensitive(var.slack_bot_token == null) == (var.slack_channel_id == null)
      error_message = "slack_bot_token and slack_channel_id belong together: set both, or neither."
    }

    precondition {
      condition     = !local.has_slack_actions || nonsensitive(var.slack_bot_token != null)
      error_message = "slack_signing_secret needs slack_bot_token: only an app has buttons."
    }

    precondition {
      condition     = nonsensitive(var.slack_bot_token == null || var.slack_webhook_url == null)
      error_message = "Set either slack_webhook_url or slack_bot_token, not both."
    }

    precondition {
      condition     = length(var.member_organizational_unit_ids) == 0 || length(var.member_accounts) > 0
      error_message = "member_organizational_unit_ids creates roles that no sweep uses: set member_accounts, such as [\"organization\"]."
    }
  }
}

resource "aws_secretsmanager_secret" "slack_webhook" {
  #checkov:skip=CKV_AWS_149:Secrets Manager encrypts with its own key of the account. Only the sweeper may read.
  #checkov:skip=CKV2_AWS_57:Another party issues the secret, so no function can rotate it.
  count = local.has_slack ? 1 : 0

  name        = "${var.name}/slack-webhook"
  description = "Where the Ebb sweeper posts its digest."
  tags        = local.tags

  # Slack shows the webhook at any time. A recovery window would only block the name for a new
  # deployment.
  recovery_window_in_days = 0
}

resource "aws_secretsmanager_secret_version" "slack_webhook" {
  count = local.has_slack ? 1 : 0

  secret_id     = aws_secretsmanager_secret.slack_webhook[0].id
  secret_string = local.slack_secret
}

resource "aws_secretsmanager_secret" "events_webhook" {
  #checkov:skip=CKV_AWS_149:Secrets Manager encrypts with its own key of the account. Only the sweeper may read.
  #checkov:skip=CKV2_AWS_57:Another party issues the secret, so no function can rotate it.
  count = local.has_events ? 1 : 0

  name        = "${var.name}/events-webhook"
  description = "Where the Ebb sweeper posts events, and what it signs them with."
  tags        = local.tags

  # As above.
  recovery_window_in_days = 0
}

resource "aws_secretsmanager_secret_version" "events_webhook" {
  count = local.has_events ? 1 : 0

  secret_id     = aws_secretsmanager_secret.events_webhook[0].id
  secret_string = jsonencode({ url = var.events_webhook_url, key = var.events_webhook_key })
}

resource "aws_secretsmanager_secret" "webhooks" {
  #checkov:skip=CKV_AWS_149:Secrets Manager encrypts with its own key of the account. Only the sweeper may read.
  #checkov:skip=CKV2_AWS_57:Another party issues the secret, so no function can rotate it.
  count = local.has_webhooks ? 1 : 0

  name        = "${var.name}/webhooks"
  description = "URLs and tokens of the webhooks of the policy."
  tags        = local.tags

  # As above.
  recovery_window_in_days = 0
}

resource "aws_secretsmanager_secret_version" "webhooks" {
  count = local.has_webhooks ? 1 : 0

  secret_id = aws_secretsmanager_secret.webhooks[0].id
  secret_string = jsonencode({
    for name, hook in var.webhooks : name => { for key, value in hook : key => value if value != null }
  })
}

locals {
  has_events        = nonsensitive(var.events_webhook_url != null)
  has_slack         = nonsensitive(var.slack_webhook_url != null || var.slack_bot_token != null)
  has_slack_actions = nonsensitive(var.slack_signing_secret != null)
  has_webhooks      = nonsensitive(length(var.webhooks) > 0)

  # A single webhook is stored as a plain URL, as in earlier versions.
  slack_secret = nonsensitive(var.slack_bot_token == null && length(var.slack_channels) == 0) ? var.slack_webhook_url : jsonencode({
    for name, value in {
      webhook   = var.slack_webhook_url
      bot_token = var.slack_bot_token
      channel   = var.slack_channel_id
      channels  = var.slack_channels
      buttons   = local.has_slack_actions ? true : null
    } : name => value if value != null
  })
}
