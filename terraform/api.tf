# The recommendation API: its routes, and one program behind them. Nothing else is
# routed, and every route asks who calls unless the variable says NONE.

locals {
  routes = [
    "GET /v1/decisions",
    "GET /v1/environments",
    "GET /v1/environments/{environment}/recommendation",
    "GET /v1/findings",
    "GET /v1/nodes",
    "GET /v1/nodes/{node}/recommendation",
    "GET /v1/openapi.json",
    "GET /v1/pipelines",
    "GET /v1/pipelines/{pipeline}/recommendation",
    "GET /v1/prices",
    "GET /v1/recommendations",
    "GET /v1/runs",
    "GET /v1/steps",
    "GET /v1/steps/{step}/recommendation",
    "GET /v1/texts/{form}",
    "POST /v1/findings/{finding}/dismiss",
    "POST /v1/findings/{finding}/reopen",
    "POST /v1/findings/{finding}/snooze",
  ]
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
}

resource "aws_apigatewayv2_authorizer" "tune" {
  count = var.api_authorization == "JWT" ? 1 : 0

  api_id           = aws_apigatewayv2_api.tune.id
  name             = "${var.name}-tune"
  authorizer_type  = "JWT"
  identity_sources = ["$request.header.Authorization"]

  jwt_configuration {
    issuer   = var.api_jwt_issuer
    audience = var.api_jwt_audience
  }

  lifecycle {
    # Without an audience every token of the issuer's would do, whoever it is for.
    precondition {
      condition     = var.api_jwt_issuer != null && length(var.api_jwt_audience) > 0
      error_message = "api_authorization = \"JWT\" needs api_jwt_issuer and api_jwt_audience."
    }
  }
}

resource "aws_apigatewayv2_stage" "tune" {
  api_id      = aws_apigatewayv2_api.tune.id
  name        = "$default"
  auto_deploy = true
  tags        = local.tags
}

resource "aws_lambda_permission" "tune" {
  statement_id  = "api"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.tune.function_name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.tune.execution_arn}/*/*"
}
