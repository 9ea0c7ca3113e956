# Permissions of an instance with a probe. The policy is also an output, for an existing role such
# as a Batch instance role.

resource "aws_iam_policy" "node" {
  count = var.senders.ec2 == null ? 0 : 1

  name        = "${var.name}-node"
  path        = var.iam_path
  description = "Ebb probe: sends what its own node did, and reads its rules."
  policy      = data.aws_iam_policy_document.sender["ec2"].json
  tags        = local.tags
}

moved {
  from = aws_iam_policy.node
  to   = aws_iam_policy.node[0]
}

# EC2 passes no source account or ARN when it assumes a role, so this has no condition.
data "aws_iam_policy_document" "assume_node" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "node" {
  name                 = local.node_role_name
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "A machine that runs the Ebb probe."
  assume_role_policy   = data.aws_iam_policy_document.assume_node.json
  tags                 = local.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  count = length(aws_iam_policy.node)

  role       = aws_iam_role.node.name
  policy_arn = aws_iam_policy.node[0].arn
}

moved {
  from = aws_iam_role_policy_attachment.node
  to   = aws_iam_role_policy_attachment.node[0]
}

resource "aws_iam_instance_profile" "node" {
  name = "${var.name}-node"
  path = var.iam_path
  role = aws_iam_role.node.name
  tags = local.tags
}

# The probe is stored next to its rules, where every node may read.
resource "aws_s3_object" "probe" {
  count = local.has_probe ? 1 : 0

  bucket      = aws_s3_bucket.ebb.id
  key         = "config/ebb-probe.tar.gz"
  source      = local.packages.probe
  source_hash = local.sha256.probe

  # The version is as in bucket.tf.
  depends_on = [aws_s3_bucket_versioning.ebb, terraform_data.release]
}

locals {
  # With several queues, a node uses the one for the hash of its name.
  queue_url = join(",", aws_sqs_queue.heartbeats[*].url)

  # Where the package is, and where the probe sends: the input of modules/probe.
  probe = !local.has_probe ? null : {
    bucket    = aws_s3_bucket.ebb.id
    key       = aws_s3_object.probe[0].key
    queue_url = local.queue_url
    region    = local.region
    sha256    = local.sha256.probe
  }
}

module "probe" {
  source = "./modules/probe"
  count  = local.has_probe ? 1 : 0

  name    = var.name
  package = local.probe
  tags    = local.tags
}
