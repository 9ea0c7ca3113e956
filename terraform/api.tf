# The recommendation API: five routes, one program behind them.

locals {
  routes = [
    "GET /v1/findings",
    "GET /v1/openapi.json",
    "GET /v1/recommendations",
    "GET /v1/steps",
    "GET /v1/steps/{step}/recommendation",
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
  target             = "integrations/${aws_apigatewayv2_integration.tune.id}"
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
