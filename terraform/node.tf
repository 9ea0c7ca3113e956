# What a machine with a probe may do. The policy is also there on its own, to be
# attached to a role that the machine already has (a Batch instance role, say).

resource "aws_iam_policy" "node" {
  name        = "${var.name}-node"
  description = "Ebb probe: hands in what its own node did, and reads its rules."
  policy      = data.aws_iam_policy_document.node.json
  tags        = local.tags
}

data "aws_iam_policy_document" "node" {
  statement {
    sid       = "SendHeartbeats"
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.heartbeats.arn]
  }

  # AWS itself fills in who is calling (AROA...:i-...), so no node can write
  # under another node's name. The sweep relies on this.
  statement {
    sid       = "HandInStepsUnderOwnName"
    actions   = ["s3:PutObject"]
    resources = ["${aws_s3_bucket.ebb.arn}/ingest/v1/$${aws:userid}/*"]
  }

  statement {
    sid       = "ReadRules"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.ebb.arn}/config/*"]
  }
}

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
  name               = "${var.name}-node"
  description        = "A machine that runs the Ebb probe."
  assume_role_policy = data.aws_iam_policy_document.assume_node.json
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  role       = aws_iam_role.node.name
  policy_arn = aws_iam_policy.node.arn
}

resource "aws_iam_instance_profile" "node" {
  name = "${var.name}-node"
  role = aws_iam_role.node.name
  tags = local.tags
}
