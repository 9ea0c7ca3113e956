# The recommendation API: its routes and one function. There are no other routes. Every route
# requires a signature or a token unless the variable is NONE. The function trusts the gateway,
# which decides about write access. Two kinds of routes pass without a token: the actions of Slack,
# because the function checks the signature of Slack, and the pages for browsers, because the function
# checks a signed cookie. Both do not exist without a secret.

locals {
  routes = [
    "GET /v1/costs",
    "GET /v1/decisions",
    "GET /v1/environments",
    "GET /v1/environments/{environment}/recommendation",
    "GET /v1/explain/{resource}",
    "GET /v1/findings",
    "GET /v1/findings/{finding}",
    "GET /v1/metrics",
    "GET /v1/nodes",
    "GET /v1/nodes/{node}/activity",
    "GET /v1/nodes/{node}/recommendation",
    "GET /v1/openapi.json",
    "GET /v1/pipelines",
    "GET /v1/pipelines/{pipeline}/recommendation",
    "GET /v1/prices",
    "GET /v1/probes",
    "GET /v1/recommendations",
    "GET /v1/report",
    "GET /v1/runs",
    "GET /v1/runs/{run}",
    "GET /v1/steps",
    "GET /v1/steps/{step}/recommendation",
    "GET /v1/steps/{step}/tasks",
    "GET /v1/texts/{form}",
    "POST /v1/findings/{finding}/dismiss",
    "POST /v1/findings/{finding}/reopen",
    "POST /v1/findings/{finding}/snooze",
    "POST /v1/pages/link",
  ]

  # The paths are listed, because a route for all other paths would let unknown paths of the API pass.
  pages = [
    "GET /",
    "GET /assets/{asset}",
    "GET /costs",
    "GET /data/{path+}",
    "GET /findings",
    "GET /findings/{finding}",
    "GET /live",
    "GET /nodes",
    "GET /nodes/{node}",
    "GET /open",
    "GET /probes",
    "GET /runs",
    "GET /runs/{run}",
    "GET /runs/{run}/timeline.json",
    "GET /runs/{run}/usage.json",
    "GET /search",
    "GET /steps",
    "GET /steps/{step}",
    "POST /findings/{finding}/dismiss",
    "POST /findings/{finding}/reopen",
    "POST /findings/{finding}/snooze",
  ]

  has_pages = nonsensitive(var.pages_secret != null)

  is_jwt = var.api_authorization == "JWT"

  # A token needs one of these. A scope for writing also permits reading. Without a scope for
  # reading, every token of the audience permits reading.
  read_scopes = length(var.api_jwt_read_scopes) == 0 ? [] : concat(var.api_jwt_read_scopes, var.api_jwt_write_scopes)
}

resource "aws_apigatewayv2_api" "tune" {
  name          = "${var.name}-tune"
  description   = "Ebb: findings and recommendations."
  protocol_type = "HTTP"
  tags          = local.tags
}

resource "aws_apigatewayv2_integration" "tune" {
  api_id                 = aws_apigatewayv2_api.tune.id
  integration_type       = "AWS_PROXY"
  integration_uri        = aws_lambda_function.tune.invoke_arn
  integration_method     = "POST"
  payload_format_version = "2.0"
}

resource "aws_apigatewayv2_route" "tune" {
  for_each = toset(local.routes)

  api_id             = aws_apigatewayv2_api.tune.id
  route_key          = each.value
  authorization_type = var.api_authorization
  authorizer_id      = one(aws_apigatewayv2_authorizer.tune[*].id)
  target             = "integrations/${aws_apigatewayv2_integration.tune.id}"

  # Every route that is not a GET changes decisions.
  authorization_scopes = !local.is_jwt ? null : startswith(each.value, "GET ") ? local.read_scopes : var.api_jwt_write_scopes
}

resource "aws_apigatewayv2_route" "slack_actions" {
  #checkov:skip=CKV_AWS_309:Slack cannot sign for IAM. The function checks the signature of Slack.
  count = local.has_slack_actions ? 1 : 0

  api_id             = aws_apigatewayv2_api.tune.id
  route_key          = "POST /v1/slack/actions"
  authorization_type = "NONE"
  target             = "integrations/${aws_apigatewayv2_integration.tune.id}"
}

resource "aws_apigatewayv2_route" "pages" {
  #checkov:skip=CKV_AWS_309:A browser cannot sign for IAM. The function checks a signed cookie; without pages_secret there are no routes.
  for_each = local.has_pages ? toset(local.pages) : toset([])

  api_id             = aws_apigatewayv2_api.tune.id
  route_key          = each.value
  authorization_type = "NONE"
  target             = "integrations/${aws_apigatewayv2_integration.tune.id}"
}

resource "aws_apigatewayv2_authorizer" "tune" {
  count = local.is_jwt ? 1 : 0

  api_id           = aws_apigatewayv2_api.tune.id
  name             = "${var.name}-tune"
  authorizer_type  = "JWT"
  identity_sources = ["$request.header.Authorization"]

  jwt_configuration {
    issuer   = var.api_jwt_issuer
    audience = var.api_jwt_audience
  }

  lifecycle {
    # Without an audience, tokens of the issuer for other services would be accepted.
    precondition {
      condition     = var.api_jwt_issuer != null && length(var.api_jwt_audience) > 0
      error_message = "api_authorization = \"JWT\" needs api_jwt_issuer and api_jwt_audience."
    }

    # A route without scopes accepts every token.
    precondition {
      condition     = length(var.api_jwt_write_scopes) > 0
      error_message = "api_authorization = \"JWT\" needs api_jwt_write_scopes."
    }
  }
}

resource "aws_apigatewayv2_stage" "tune" {
  api_id      = aws_apigatewayv2_api.tune.id
  name        = "$default"
  auto_deploy = true
  tags        = local.tags

  default_route_settings {
    throttling_rate_limit  = var.api_rate_limit
    throttling_burst_limit = var.api_burst_limit
  }

  # The route, not the path: no query string, token or header is logged.
  access_log_settings {
    destination_arn = aws_cloudwatch_log_group.api.arn

    format = jsonencode({
      request_id         = "$context.requestId"
      time               = "$context.requestTime"
      route              = "$context.routeKey"
      status             = "$context.status"
      response_bytes     = "$context.responseLength"
      latency_ms         = "$context.responseLatency"
      source_ip          = "$context.identity.sourceIp"
      caller_arn         = "$context.identity.userArn"
      caller_subject     = "$context.authorizer.claims.sub"
      error              = "$context.error.messageString"
      authorizer_error   = "$context.authorizer.error"
      integration_status = "$context.integrationStatus"
    })
  }
}

# Below /aws/vendedlogs/ CloudWatch needs no resource policy for each log group; an
# account can have only 10 of them.
resource "aws_cloudwatch_log_group" "api" {
  #checkov:skip=CKV_AWS_158:CloudWatch encrypts logs with its own key. They contain no secret.
  #checkov:skip=CKV_AWS_338:log_retention_days is the choice of the user.
  name              = "/aws/vendedlogs/apis/${local.tune_name}"
  retention_in_days = var.log_retention_days
  tags              = local.tags
}

resource "aws_lambda_permission" "tune" {
  statement_id  = "api"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.tune.function_name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.tune.execution_arn}/*/*"
}
