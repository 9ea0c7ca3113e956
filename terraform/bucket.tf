# One bucket for objects of nodes (ingest/), the lake (lake/), its cache (state/) and reports. It
# also has single tasks (details/), refused objects (dead-letter/) and names of tasks (names/). The
# rest are decisions (decisions/), configuration (config/) and results of Athena (queries/).
# Versioning protects decisions and configuration. S3 has no versioning for a folder, so old
# versions of other folders are deleted after a day. The lake has its own history, and the state can be rebuilt.

resource "aws_s3_bucket" "ebb" {
  #checkov:skip=CKV_AWS_18:Access logs of every object cost more than the lake. CloudTrail data events are the choice of the account.
  #checkov:skip=CKV_AWS_144:The lake can be lost with its region. Decisions and configuration are versioned.
  #checkov:skip=CKV_AWS_145:SSE-S3 encrypts each object. A key of its own would charge each object that a node puts.
  #checkov:skip=CKV2_AWS_62:The sweep lists the objects of nodes; no event starts anything.
  bucket        = local.bucket_name
  force_destroy = var.bucket_force_destroy
  tags          = local.tags
}

resource "aws_s3_bucket_public_access_block" "ebb" {
  bucket = aws_s3_bucket.ebb.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "ebb" {
  bucket = aws_s3_bucket.ebb.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_ownership_controls" "ebb" {
  bucket = aws_s3_bucket.ebb.id

  # Objects have no access control lists, so a sender of another account owns no object.
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_versioning" "ebb" {
  bucket = aws_s3_bucket.ebb.id

  versioning_configuration {
    status = "Enabled"
  }
}

locals {
  # Days for which old versions are stored, by folder.
  version_days = merge(var.athena ? { (local.query_results) = 1 } : {}, {
    config      = var.version_retention_days
    dead-letter = 1
    decisions   = var.version_retention_days
    details     = 1
    ingest      = 1
    lake        = 1
    names       = 1
    reports     = 1
    state       = 1
  })

  # Reports are stored in folders named after a UTC time, so the prefix
  # reports/2 matches dated reports and not reports/latest/. The sweep deletes processed objects
  # of ingest/; the rule deletes objects that no sweep processed. A sweep uses names and tasks of 14
  # days; the documents of later ones are written again.
  expirations = merge(var.athena ? { expire-query-results = { prefix = "${local.query_results}/", days = 7 } } : {}, {
    expire-dead-letter   = { prefix = "dead-letter/", days = var.ingest_retention_days }
    expire-dated-reports = { prefix = "reports/2", days = var.report_retention_days }
    expire-details       = { prefix = "details/", days = 30 }
    expire-ingest        = { prefix = "ingest/", days = var.ingest_retention_days }
    expire-names         = { prefix = "names/", days = 30 }
  })
}

resource "aws_s3_bucket_lifecycle_configuration" "ebb" {
  bucket = aws_s3_bucket.ebb.id

  dynamic "rule" {
    for_each = local.expirations

    content {
      id     = rule.key
      status = "Enabled"

      filter {
        prefix = rule.value.prefix
      }

      expiration {
        days = rule.value.days
      }
    }
  }

  # A deletion leaves a marker, which slows down every listing.
  dynamic "rule" {
    for_each = local.version_days

    content {
      id     = "expire-old-versions-${rule.key}"
      status = "Enabled"

      filter {
        prefix = "${rule.key}/"
      }

      expiration {
        expired_object_delete_marker = true
      }

      noncurrent_version_expiration {
        noncurrent_days = rule.value
      }
    }
  }

  # An incomplete upload is billed, but not listed.
  rule {
    id     = "abort-broken-uploads"
    status = "Enabled"

    filter {
      prefix = ""
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }

  # S3 accepts rules about old versions only after versioning is on.
  depends_on = [aws_s3_bucket_versioning.ebb]
}

resource "aws_s3_bucket_policy" "ebb" {
  bucket = aws_s3_bucket.ebb.id
  policy = data.aws_iam_policy_document.bucket.json

  # S3 refuses two changes of access to a bucket at the same time.
  depends_on = [aws_s3_bucket_public_access_block.ebb, aws_s3_bucket_ownership_controls.ebb]
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "DenyInsecureTransport"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [local.bucket_arn, "${local.bucket_arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }

  statement {
    sid       = "DenyOldTls"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [local.bucket_arn, "${local.bucket_arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "NumericLessThan"
      variable = "s3:TlsVersion"
      values   = ["1.2"]
    }
  }

  dynamic "statement" {
    for_each = local.refusals

    content {
      sid       = statement.key
      effect    = "Deny"
      actions   = ["s3:PutObject"]
      resources = ["${local.bucket_arn}/ingest/*"]

      principals {
        type        = "*"
        identifiers = ["*"]
      }

      dynamic "condition" {
        for_each = statement.value

        content {
          test     = condition.value.test
          variable = condition.value.key
          values   = condition.value.values
        }
      }
    }
  }

  # Also for roles with wide permissions: below ingest/ each session can write only under its own
  # name.
  statement {
    sid     = "DenyNamesOfOthers"
    effect  = "Deny"
    actions = ["s3:PutObject"]

    not_resources = concat(
      [local.own_objects_arn],
      [for folder in keys(local.version_days) : "${local.bucket_arn}/${folder}/*" if folder != "ingest"],
    )

    principals {
      type        = "*"
      identifiers = ["*"]
    }
  }

  statement {
    sid           = "DenySendersElsewhere"
    effect        = "Deny"
    actions       = ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"]
    not_resources = [local.own_objects_arn]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:PrincipalArn"
      values   = local.sender_role_arns
    }
  }

  # The statements above require the proof for writing.
  dynamic "statement" {
    for_each = merge([
      for who, sender in local.foreign_senders : {
        "AllowPutOf${who}"  = merge(sender, { action = "s3:PutObject", resources = [local.own_objects_arn] })
        "AllowReadOf${who}" = merge(sender, { action = "s3:GetObject", resources = local.node_objects })
      }
    ]...)

    content {
      sid       = statement.key
      actions   = [statement.value.action]
      resources = statement.value.resources

      principals {
        type        = "AWS"
        identifiers = statement.value.principals
      }

      condition {
        test     = statement.value.test
        variable = statement.value.key
        values   = statement.value.values
      }

      # An organization may have many roles, so only its instances may read.
      dynamic "condition" {
        for_each = statement.value.key == "aws:PrincipalOrgID" ? [local.own_instance] : []

        content {
          test     = "ArnLike"
          variable = "ec2:SourceInstanceARN"
          values   = [condition.value]
        }
      }
    }
  }
}

resource "aws_s3_object" "policy" {
  count = var.policy_toml == null ? 0 : 1

  bucket       = aws_s3_bucket.ebb.id
  key          = local.policy_key
  content      = var.policy_toml
  content_type = "application/toml"

  # S3 gives an object that is older than versioning no version, so deleting it would leave a marker in the bucket.
  depends_on = [aws_s3_bucket_versioning.ebb]
}

resource "aws_s3_object" "rules" {
  count = var.rules_toml == null ? 0 : 1

  bucket       = aws_s3_bucket.ebb.id
  key          = local.rules_key
  content      = var.rules_toml
  content_type = "application/toml"

  # As above.
  depends_on = [aws_s3_bucket_versioning.ebb]
}

locals {
  policy_key = "config/policy.toml"
  rules_key  = "config/rules.toml"

  # A probe reads its rules, and the package of its own program.
  node_objects = ["${local.bucket_arn}/${local.rules_key}", "${local.bucket_arn}/config/ebb-probe*"]
}
