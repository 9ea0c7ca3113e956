# Nothing is open by default, and tokens are taken only of the issuer and for the
# audience that are named. The provider is a mock: no account is asked.
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
    error_message = "a route does not ask for a signature"
  }

  assert {
    condition     = length(aws_apigatewayv2_authorizer.tune) == 0
    error_message = "an authorizer that nobody asked for"
  }
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
    error_message = "a route does not ask the authorizer"
  }

  assert {
    condition     = one(aws_apigatewayv2_authorizer.tune[0].jwt_configuration).audience == toset(["ebb"])
    error_message = "tokens of another audience would do"
  }
}

run "tokens_for_nobody_in_particular_are_refused" {
  command = plan

  variables {
    api_authorization = "JWT"
    api_jwt_issuer    = "https://login.example.org"
  }

  expect_failures = [aws_apigatewayv2_authorizer.tune]
}

run "a_misspelt_choice_is_refused" {
  command = plan

  variables {
    api_authorization = "none"
  }

  expect_failures = [var.api_authorization]
}
