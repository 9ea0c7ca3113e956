# The budget for Ebb itself. AWS Budgets is free without actions. The tag must be activated as a
# cost allocation tag in the account that pays the bill.

resource "aws_budgets_budget" "ebb" {
  count = var.monthly_budget_usd == null ? 0 : 1

  name         = var.name
  budget_type  = "COST"
  limit_amount = tostring(var.monthly_budget_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"
  tags         = var.tags

  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:application$%s", var.tags["application"])]
  }

  dynamic "notification" {
    for_each = toset(["ACTUAL", "FORECASTED"])

    content {
      notification_type         = notification.value
      comparison_operator       = "GREATER_THAN"
      threshold                 = 100
      threshold_type            = "PERCENTAGE"
      subscriber_sns_topic_arns = [local.topic_arn]
    }
  }

  # Budgets checks that it may publish to the topic.
  depends_on = [aws_sns_topic_policy.alarms]
}
