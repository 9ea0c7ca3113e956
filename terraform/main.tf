# Location and names of the deployment. Each other file contains one kind of resource.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name

  sweeper_name   = "${var.name}-sweeper"
  tune_name      = "${var.name}-tune"
  node_role_name = "${var.name}-node"
  bucket_name    = coalesce(var.bucket_name, "${var.name}-${local.account}-${local.region}")

  # Built from the names, so that a plan shows complete policies before anything exists.
  node_role_arn        = "arn:${local.partition}:iam::${local.account}:role${var.iam_path}${local.node_role_name}"
  bucket_arn           = "arn:${local.partition}:s3:::${local.bucket_name}"
  own_objects_arn      = "${local.bucket_arn}/ingest/v1/$${aws:userid}/*"
  queue_names          = [for suffix in local.shard_suffix : "${var.name}-heartbeats${suffix}"]
  dead_letters_name    = "${var.name}-dead-letters"
  queue_arns           = [for queue in local.queue_names : "${local.queue_arn_prefix}:${queue}"]
  dead_letters_arn     = "${local.queue_arn_prefix}:${local.dead_letters_name}"
  queue_arn_prefix     = "arn:${local.partition}:sqs:${local.region}:${local.account}"
  sweeper_names        = [for suffix in local.shard_suffix : "${local.sweeper_name}${suffix}"]
  secret_arn_prefix    = "arn:${local.partition}:secretsmanager:${local.region}:${local.account}:secret:${var.name}"
  function_arn_prefix  = "arn:${local.partition}:lambda:${local.region}:${local.account}:function"
  log_group_arn_prefix = "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws/lambda"

  tags = merge({ application = "ebb" }, var.tags)
}
