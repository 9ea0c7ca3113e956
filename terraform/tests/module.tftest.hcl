# The API: nothing is open by default, and tokens are taken only of the issuer and for the
# audience that are named. Shards: each has its own. The provider is a mock: no account is asked.
# scripts/check-terraform gives the packages.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }

  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/ebb" }
  }

  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/ebb" }
  }

  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-central-1:123456789012:function:ebb" }
  }

  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-central-1:123456789012:ebb" }
  }

  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:ebb-alarms" }
  }

  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:ebb" }
  }

  mock_resource "aws_apigatewayv2_api" {
    defaults = { execution_arn = "arn:aws:execute-api:eu-central-1:123456789012:ebb" }
  }
}

run "signed_requests_by_default" {
  command = plan

  assert {
    condition     = length(aws_apigatewayv2_route.tune) > 0
    error_message = "there is no route"
  }

  assert {
    condition     = alltrue([for route in aws_apigatewayv2_route.tune : route.authorization_type == "AWS_IAM"])
    error_message = "a route does not require a signature"
  }

  assert {
    condition     = length(aws_apigatewayv2_authorizer.tune) == 0
    error_message = "an unexpected authorizer"
  }
}

run "packages_of_a_release_name_their_architecture" {
  command = plan

  assert {
    condition     = alltrue([for sweeper in aws_lambda_function.sweeper : sweeper.architectures[0] == "x86_64"])
    error_message = "a package without a known name is for x86_64"
  }

  assert {
    condition     = aws_lambda_function.tune.architectures[0] == "arm64"
    error_message = "a package with aarch64 in its name is for arm64"
  }
}

run "a_release_is_for_arm64_and_its_plan_needs_no_file" {
  command = plan

  variables {
    sweeper_package = null
    tune_package    = null

    release = {
      url     = "https://example.org/ebb/0.2.0"
      version = "0.2.0"
      sha256 = {
        sweeper = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        tune    = "b3a8e0e1f9ab1bfe3a36f231f676f78bb30a519d2b21e6c530c0eee8ebb4a5d0"
        probe   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      }
    }
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].architectures == tolist(["arm64"]) && endswith(aws_lambda_function.sweeper[0].filename, "/ebb-sweeper-0.2.0-aarch64.zip")
    error_message = "another package of the sweeper"
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].source_code_hash == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" && aws_lambda_function.tune.source_code_hash == "s6jg4fmrG/46NvIx9nb3i7MKUZ0rIebFMMDu6Ou0pdA="
    error_message = "the checksum in base64 differs"
  }

  assert {
    condition     = endswith(aws_s3_object.probe[0].source, "/ebb-probe-0.2.0-linux-aarch64.tar.gz")
    error_message = "another package of the probe"
  }
}

run "a_release_has_packages_for_x86_64" {
  command = plan

  variables {
    sweeper_package = null
    tune_package    = null
    architecture    = "x86_64"

    release = {
      url     = "https://example.org/ebb/0.2.0"
      version = "0.2.0"
      sha256 = {
        sweeper = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        tune    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      }
    }
  }

  assert {
    condition     = aws_lambda_function.tune.architectures == tolist(["x86_64"]) && endswith(aws_lambda_function.tune.filename, "/ebb-tune-0.2.0-x86_64.zip")
    error_message = "another package of the API"
  }

  assert {
    condition     = length(aws_s3_object.probe) == 0
    error_message = "a package of the probe that nobody stated"
  }
}

run "a_release_and_local_packages_are_refused" {
  command = plan

  variables {
    release = {
      url     = "https://example.org/ebb/0.2.0"
      version = "0.2.0"
      sha256 = {
        sweeper = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        tune    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      }
    }
  }

  expect_failures = [aws_lambda_function.sweeper]
}

run "no_package_is_refused" {
  command = plan

  variables {
    sweeper_package = null
    tune_package    = null
  }

  expect_failures = [aws_lambda_function.sweeper]
}

run "one_package_of_two_is_refused" {
  command = plan

  variables {
    tune_package = null
  }

  expect_failures = [aws_lambda_function.sweeper]
}

run "a_release_over_http_or_with_a_short_checksum_is_refused" {
  command = plan

  variables {
    sweeper_package = null
    tune_package    = null

    release = {
      url     = "http://127.0.0.1:80@example.org/ebb"
      version = "v0.2.0"
      sha256  = { sweeper = "e3b0c442", tune = "e3b0c442" }
    }
  }

  expect_failures = [var.release]
}

run "tokens_of_one_issuer_for_one_audience" {
  command = apply

  variables {
    api_authorization = "JWT"
    api_jwt_issuer    = "https://login.example.org"
    api_jwt_audience  = ["ebb"]
  }

  assert {
    condition = alltrue([
      for route in aws_apigatewayv2_route.tune :
      route.authorization_type == "JWT" && route.authorizer_id == aws_apigatewayv2_authorizer.tune[0].id
    ])
    error_message = "a route does not use the authorizer"
  }

  assert {
    condition     = one(aws_apigatewayv2_authorizer.tune[0].jwt_configuration).audience == toset(["ebb"])
    error_message = "tokens of another audience are accepted"
  }

  assert {
    condition = alltrue([
      for key, route in aws_apigatewayv2_route.tune :
      route.authorization_scopes == toset(startswith(key, "GET ") ? ["ebb.read", "ebb.write"] : ["ebb.write"])
    ])
    error_message = "a route does not require the scope of reading or writing"
  }
}

run "a_scope_for_reading_is_optional" {
  command = plan

  variables {
    api_authorization    = "JWT"
    api_jwt_issuer       = "https://login.example.org"
    api_jwt_audience     = ["ebb"]
    api_jwt_read_scopes  = []
    api_jwt_write_scopes = ["api/decide"]
  }

  assert {
    condition = alltrue([
      for key, route in aws_apigatewayv2_route.tune :
      length(coalesce(route.authorization_scopes, [])) == (startswith(key, "GET ") ? 0 : 1)
    ])
    error_message = "reading requires a scope, or writing does not"
  }
}

run "a_scope_for_writing_is_required" {
  command = plan

  variables {
    api_authorization    = "JWT"
    api_jwt_issuer       = "https://login.example.org"
    api_jwt_audience     = ["ebb"]
    api_jwt_write_scopes = []
  }

  expect_failures = [aws_apigatewayv2_authorizer.tune]
}

run "tokens_for_nobody_in_particular_are_refused" {
  command = plan

  variables {
    api_authorization = "JWT"
    api_jwt_issuer    = "https://login.example.org"
  }

  expect_failures = [aws_apigatewayv2_authorizer.tune]
}

run "a_stated_architecture_is_used" {
  command = plan

  variables {
    architecture = "arm64"
  }

  assert {
    condition     = alltrue([for sweeper in aws_lambda_function.sweeper : sweeper.architectures[0] == "arm64"])
    error_message = "the architecture is not the stated one"
  }
}

run "a_misspelt_choice_is_refused" {
  command = plan

  variables {
    api_authorization = "none"
  }

  expect_failures = [var.api_authorization]
}

run "one_shard_keeps_the_names_of_before" {
  command = plan

  assert {
    condition = (
      aws_sqs_queue.heartbeats[0].name == "ebb-heartbeats" &&
      aws_lambda_function.sweeper[0].function_name == "ebb-sweeper" &&
      aws_scheduler_schedule.sweep[0].name == "ebb-sweep" &&
      length(aws_lambda_function.sweeper) == 1
    )
    error_message = "the only shard would be created again"
  }
}

run "each_shard_has_its_own_queue_and_function" {
  command = apply

  variables {
    shards = 3
  }

  assert {
    condition     = length(distinct(aws_sqs_queue.heartbeats[*].name)) == 3
    error_message = "shards share a queue"
  }

  assert {
    condition = [
      for function in aws_lambda_function.sweeper :
      join(" of ", [function.environment[0].variables.EBB_SHARD, function.environment[0].variables.EBB_SHARDS])
    ] == ["0 of 3", "1 of 3", "2 of 3"]
    error_message = "a function has the wrong shard"
  }

  assert {
    condition = join(",", [
      for function in aws_lambda_function.sweeper : function.environment[0].variables.EBB_QUEUE_URL
    ]) == output.queue_url
    error_message = "probes and functions do not have the same queues in the same order"
  }

  assert {
    condition     = length(distinct(aws_scheduler_schedule.sweep[*].name)) == 3
    error_message = "a function is not invoked"
  }
}

run "only_a_named_bucket_of_exports_is_read" {
  command = plan

  variables { cost_export_bucket = "bills" }

  assert {
    condition     = length([for one in data.aws_iam_policy_document.sweeper.statement : one if contains(["ListCostExport", "ReadCostExport"], one.sid)]) == 2
    error_message = "The sweep must be able to read the bucket."
  }
}

run "only_named_keys_are_used" {
  command = plan

  variables { kms_key_arns = ["arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"] }

  assert {
    condition = [for one in data.aws_iam_policy_document.sweeper.statement : one.resources if one.sid == "UseKeys"] == [
      toset(["arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"])
    ]
    error_message = "The sweep must be able to use this key and no other."
  }
}

run "without_keys_no_key_is_used" {
  command = plan

  assert {
    condition     = length([for one in data.aws_iam_policy_document.sweeper.statement : one if one.sid == "UseKeys"]) == 0
    error_message = "a permission for keys that nobody named"
  }
}

run "an_alias_is_no_key" {
  command = plan

  variables { kms_key_arns = ["arn:aws:kms:eu-central-1:123456789012:alias/ebb"] }

  expect_failures = [var.kms_key_arns]
}

run "roles_have_the_path_and_the_boundary" {
  command = plan

  variables {
    iam_path                 = "/teams/ebb/"
    permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
    member_accounts          = ["210987654321"]
    member_iam_path          = "/readers/"
    athena                   = true

    senders = {
      ec2  = {}
      irsa = { role_arns = ["arn:aws:iam::123456789012:role/probe"], oidc_provider_arns = ["arn:aws:iam::123456789012:oidc-provider/oidc.example.org"] }
    }
  }

  assert {
    condition = alltrue([
      for role in [aws_iam_role.node, aws_iam_role.schedule, aws_iam_role.sweeper, aws_iam_role.tune] :
      role.path == "/teams/ebb/" && role.permissions_boundary == "arn:aws:iam::123456789012:policy/boundary"
    ])
    error_message = "a role without the path or the boundary"
  }

  assert {
    condition = alltrue([
      for path in concat([aws_iam_instance_profile.node.path], aws_iam_policy.node[*].path, values(aws_iam_policy.sender)[*].path) :
      path == "/teams/ebb/"
    ]) && length(aws_iam_policy.sender) == 1
    error_message = "a policy or a profile without the path"
  }

  assert {
    condition     = local.node_role_arn == "arn:aws:iam::123456789012:role/teams/ebb/ebb-node"
    error_message = "the policy of the bucket names another role"
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].environment[0].variables["EBB_ACCOUNT_ROLE"] == "readers/ebb-member"
    error_message = "the sweep assumes another role"
  }

  assert {
    condition = [for one in data.aws_iam_policy_document.sweeper.statement : one.resources if one.sid == "EnterMembers"] == [
      toset(["arn:aws:iam::210987654321:role/readers/ebb-member"])
    ]
    error_message = "the sweep may not assume the role"
  }
}

run "a_path_without_a_slash_at_its_end_is_refused" {
  command = plan

  variables { iam_path = "/teams" }

  expect_failures = [var.iam_path]
}

run "a_name_is_no_boundary" {
  command = plan

  variables { permissions_boundary_arn = "boundary" }

  expect_failures = [var.permissions_boundary_arn]
}

run "half_a_day_and_half_a_megabyte_are_refused" {
  command = plan

  variables {
    ingest_retention_days = 14.5
    report_retention_days = 1.5
    sweeper_memory_mb     = 512.5
    tune_memory_mb        = 512.5
  }

  expect_failures = [var.ingest_retention_days, var.report_retention_days, var.sweeper_memory_mb, var.tune_memory_mb]
}

run "null_means_the_default" {
  command = plan

  variables {
    alarm_emails   = null
    alarms         = null
    kms_key_arns   = null
    name           = null
    shards         = null
    slack_channels = null
    tags           = null
    webhooks       = null
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].function_name == "ebb-sweeper"
    error_message = "another name than the default"
  }
}

run "a_url_is_no_bucket_of_exports" {
  command = plan

  variables { cost_export_bucket = "s3://bills/cur" }

  expect_failures = [var.cost_export_bucket]
}

run "half_a_shard_is_refused" {
  command = plan

  variables {
    shards = 1.5
  }

  expect_failures = [var.shards]
}

run "events_are_signed_with_a_key_that_only_the_sweeper_reads" {
  command = plan

  variables {
    events_webhook_url = "https://events.example.org/ebb"
    events_webhook_key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
  }

  assert {
    condition     = length(aws_secretsmanager_secret.events_webhook) == 1
    error_message = "there is no secret"
  }
}

run "a_webhook_needs_a_key" {
  command = plan

  variables {
    events_webhook_url = "https://events.example.org/ebb"
  }

  expect_failures = [aws_lambda_function.sweeper]
}

run "senders_of_no_kind_are_refused" {
  command = plan

  variables {
    senders = {}
  }

  expect_failures = [var.senders]
}

run "a_kind_without_a_proof_is_refused" {
  command = plan

  variables {
    senders = {
      irsa = { role_arns = ["arn:aws:iam::123456789012:role/probe"], oidc_provider_arns = [] }
    }
  }

  expect_failures = [var.senders]
}

run "every_common_name_is_no_proof" {
  command = plan

  variables {
    senders = {
      roles_anywhere = { role_arns = ["arn:aws:iam::123456789012:role/probe"], common_names = ["*"] }
    }
  }

  expect_failures = [var.senders]
}

run "a_pattern_of_roles_is_refused" {
  command = plan

  variables {
    senders = { ec2 = { role_arns = ["arn:aws:iam::*:role/probe"] } }
  }

  expect_failures = [var.senders]
}

run "slack_has_no_route_without_a_secret" {
  command = plan

  assert {
    condition     = length(aws_apigatewayv2_route.slack_actions) == 0
    error_message = "an open route without a signing secret"
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.tune.environment[0].variables), "EBB_SLACK_SIGNING_SECRET")
    error_message = "an unexpected secret"
  }
}

run "only_the_route_of_slack_passes_without_a_token" {
  command = apply

  variables {
    slack_bot_token      = "xoxb-1"
    slack_channel_id     = "C1"
    slack_signing_secret = "0123456789abcdef0123456789abcdef"
    pages_url            = "https://ebb.example.org"
    webhooks             = { ops = { url = "https://events.example.org/v2/enqueue", key = "k" } }
  }

  assert {
    condition     = aws_apigatewayv2_route.slack_actions[0].authorization_type == "NONE"
    error_message = "Slack cannot sign for IAM"
  }

  assert {
    condition     = alltrue([for route in aws_apigatewayv2_route.tune : route.authorization_type == "AWS_IAM"])
    error_message = "another route is open"
  }

  assert {
    condition     = aws_lambda_function.tune.environment[0].variables["EBB_SLACK_SIGNING_SECRET"] == "0123456789abcdef0123456789abcdef"
    error_message = "the function cannot check the signature"
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].environment[0].variables["EBB_PAGES_URL"] == "https://ebb.example.org"
    error_message = "no links"
  }

  assert {
    condition     = jsondecode(aws_secretsmanager_secret_version.slack_webhook[0].secret_string).buttons
    error_message = "no buttons"
  }

  assert {
    condition     = jsondecode(aws_secretsmanager_secret_version.webhooks[0].secret_string) == { ops = { url = "https://events.example.org/v2/enqueue", key = "k" } }
    error_message = "another secret of the webhooks"
  }
}

run "pages_have_no_route_without_a_secret" {
  command = plan

  assert {
    condition     = length(aws_apigatewayv2_route.pages) == 0
    error_message = "an open route without a secret"
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.tune.environment[0].variables), "EBB_PAGES_SECRET")
    error_message = "an unexpected secret"
  }
}

run "only_listed_pages_pass_without_a_token" {
  command = apply

  variables {
    pages_secret = "0123456789abcdef0123456789abcdef"
  }

  assert {
    condition     = alltrue([for route in aws_apigatewayv2_route.pages : route.authorization_type == "NONE" && !strcontains(route.route_key, "/v1/")])
    error_message = "a browser cannot sign for IAM, and the API must not be open"
  }

  assert {
    condition     = alltrue([for route in aws_apigatewayv2_route.tune : route.authorization_type == "AWS_IAM"])
    error_message = "a route of the API is open"
  }

  assert {
    condition     = aws_lambda_function.tune.environment[0].variables["EBB_PAGES_SECRET"] == "0123456789abcdef0123456789abcdef"
    error_message = "the function cannot check cookies"
  }
}

run "a_short_secret_of_the_pages_is_refused" {
  command = plan

  variables {
    pages_secret = "0123456789abcdef"
  }

  expect_failures = [var.pages_secret]
}

run "buttons_need_an_app" {
  command = plan

  variables {
    slack_webhook_url    = "https://hooks.example.org/x"
    slack_signing_secret = "0123456789abcdef0123456789abcdef"
  }

  expect_failures = [aws_lambda_function.sweeper]
}

run "eight_alarms_by_default_and_nothing_that_costs_more" {
  command = apply

  assert {
    condition = output.alarm_names == tolist([
      "ebb-api-errors", "ebb-dead-letters", "ebb-failed-notifications", "ebb-failed-sweeps", "ebb-no-sweep",
      "ebb-queue-age", "ebb-silent-probes", "ebb-slow-sweeps",
    ])
    error_message = "other alarms"
  }

  assert {
    condition     = output.alarm_topic_arn == "arn:aws:sns:eu-central-1:123456789012:ebb-alarms"
    error_message = "alarms have no topic"
  }

  assert {
    condition     = output.dashboard_name == null
    error_message = "a dashboard that nobody wants"
  }
}

run "half_a_silent_probe_is_refused" {
  command = plan

  variables {
    alarm_silent_probes = 0.5
  }

  expect_failures = [var.alarm_silent_probes]
}

run "each_shard_has_alarms_about_its_sweep_and_queue" {
  command = apply

  variables {
    shards          = 2
    alarm_topic_arn = "arn:aws:sns:eu-central-1:123456789012:operations"
  }

  assert {
    condition     = length(output.alarm_names) == 12 && contains(output.alarm_names, "ebb-no-sweep-1")
    error_message = "a shard without alarms"
  }

  assert {
    condition     = output.alarm_topic_arn == "arn:aws:sns:eu-central-1:123456789012:operations"
    error_message = "another topic"
  }
}

run "sweeps_without_a_schedule_cannot_be_missing" {
  command = apply

  variables {
    schedule_state = "DISABLED"
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].environment[0].variables["EBB_INTERVAL_MINUTES"] == ""
    error_message = "sweeps that nobody schedules cannot be late"
  }

  assert {
    condition     = length(output.alarm_names) == 7 && !contains(output.alarm_names, "ebb-no-sweep")
    error_message = "an alarm that never ends"
  }
}

run "without_alarms_there_is_no_topic" {
  command = apply

  variables {
    alarms = false
  }

  assert {
    condition     = length(output.alarm_names) == 0 && output.alarm_topic_arn == null
    error_message = "a topic or an alarm"
  }

  assert {
    condition     = aws_lambda_function.sweeper[0].environment[0].variables["EBB_METRICS"] == "false"
    error_message = "metrics that nobody uses cost money"
  }
}

run "addresses_need_the_topic_of_the_module" {
  command = plan

  variables {
    alarm_emails    = ["ops@example.org"]
    alarm_topic_arn = "arn:aws:sns:eu-central-1:123456789012:operations"
  }

  expect_failures = [output.alarm_topic_arn]
}

run "addresses_without_alarms_are_refused" {
  command = plan

  variables {
    alarms       = false
    alarm_emails = ["ops@example.org"]
  }

  expect_failures = [output.alarm_topic_arn]
}

run "addresses_receive_messages_of_the_budget_without_alarms" {
  command = plan

  variables {
    alarms             = false
    alarm_emails       = ["ops@example.org"]
    monthly_budget_usd = 50
  }

  assert {
    condition     = length(output.alarm_names) == 0
    error_message = "an unexpected alarm"
  }
}

run "a_budget_of_nothing_is_refused" {
  command = plan

  variables {
    monthly_budget_usd = 0
  }

  expect_failures = [var.monthly_budget_usd]
}

run "a_name_is_no_organization" {
  command = plan

  variables {
    senders = { ec2 = { organization_id = "research" } }
  }

  expect_failures = [var.senders]
}

run "more_conditions_than_a_policy_of_a_queue_may_have_are_refused" {
  command = plan

  variables {
    senders = {
      ec2              = { organization_id = "o-a1b2c3d4e5" }
      eks_pod_identity = { role_arns = ["arn:aws:iam::210987654321:role/pod"], cluster_arns = ["arn:aws:eks:eu-central-1:210987654321:cluster/c"] }
      irsa             = { role_arns = ["arn:aws:iam::210987654321:role/irsa"], oidc_provider_arns = ["arn:aws:iam::210987654321:oidc-provider/oidc.example.org"] }
      roles_anywhere   = { role_arns = ["arn:aws:iam::210987654321:role/rack"], common_names = ["*.example.org"] }
    }
  }

  expect_failures = [aws_sqs_queue.heartbeats]
}

run "athena_is_off_by_default" {
  command = plan

  assert {
    condition     = length(module.athena) == 0 && output.athena_workgroup == null && output.analyst_policy_arn == null
    error_message = "a workgroup that nobody asked for"
  }

  assert {
    condition     = !contains(keys(local.version_days), "queries")
    error_message = "a folder that nobody uses"
  }
}

run "a_query_of_athena_has_a_limit_and_its_results_expire" {
  command = apply

  variables {
    name                    = "ebb-lab"
    athena                  = true
    athena_scan_limit_bytes = 10485760
  }

  assert {
    condition     = output.athena_workgroup == "ebb-lab" && output.athena_database == "ebb_lab"
    error_message = "names of the workgroup or the database"
  }

  assert {
    condition     = local.expirations.expire-query-results.prefix == "queries/" && local.version_days.queries == 1
    error_message = "results of queries stay"
  }
}

run "a_limit_below_that_of_athena_is_refused" {
  command = plan

  variables {
    athena                  = true
    athena_scan_limit_bytes = 10485759
  }

  expect_failures = [var.athena_scan_limit_bytes]
}

run "roles_of_members_are_created_only_with_units" {
  command = plan

  assert {
    condition     = length(module.members) == 0
    error_message = "a StackSet that nobody asked for"
  }
}

run "accounts_of_units_get_the_role" {
  command = apply

  variables {
    member_accounts                  = ["organization"]
    member_organizational_unit_ids   = ["r-a1b2"]
    member_stack_set_call_as         = "DELEGATED_ADMIN"
    member_external_id               = "ebb"
    member_iam_path                  = "/readers/"
    member_permissions_boundary_name = "boundary"
    senders                          = { ec2 = { organization_id = "o-a1b2c3d4e5" } }
  }

  assert {
    condition     = module.members[0].stack_set_name == "ebb-member"
    error_message = "another name than the role that the sweep assumes"
  }
}

run "roles_that_no_sweep_uses_are_refused" {
  command = plan

  variables {
    member_organizational_unit_ids = ["r-a1b2"]
  }

  expect_failures = [aws_lambda_function.sweeper]
}
