# Where this deployment is and what its parts are called. Every other file
# holds one noun of it.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name

  sweeper_name = "${var.name}-sweeper"
  tune_name    = "${var.name}-tune"

  tags = merge({ application = "ebb" }, var.tags)
}
