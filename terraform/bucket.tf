# One bucket: what nodes hand in (ingest/), the lake (lake/), its folded cache
# (state/), reports, refused objects (dead-letter/) and configuration (config/).
# Versioning stays off: the lake keeps its own history, and the state is a
# cache that can be folded again.

resource "aws_s3_bucket" "ebb" {
  bucket        = coalesce(var.bucket_name, "${var.name}-${local.account}-${local.region}")
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

resource "aws_s3_bucket_lifecycle_configuration" "ebb" {
  bucket = aws_s3_bucket.ebb.id

  # The sweep deletes what it has folded; this only bounds what it never saw.
  rule {
    id     = "expire-ingest"
    status = "Enabled"

    filter {
      prefix = "ingest/"
    }

    expiration {
      days = var.ingest_retention_days
    }
  }

  # Reports lie in folders named after a UTC time, so this prefix takes every
  # dated one and leaves reports/latest/ alone.
  rule {
    id     = "expire-dated-reports"
    status = "Enabled"

    filter {
      prefix = "reports/2"
    }

    expiration {
      days = var.report_retention_days
    }
  }

  rule {
    id     = "expire-dead-letter"
    status = "Enabled"

    filter {
      prefix = "dead-letter/"
    }

    expiration {
      days = var.ingest_retention_days
    }
  }

  # An upload that broke off is billed and shown nowhere.
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
}

resource "aws_s3_object" "policy" {
  count = var.policy_toml == null ? 0 : 1

  bucket       = aws_s3_bucket.ebb.id
  key          = local.policy_key
  content      = var.policy_toml
  content_type = "application/toml"
}

resource "aws_s3_object" "rules" {
  count = var.rules_toml == null ? 0 : 1

  bucket       = aws_s3_bucket.ebb.id
  key          = "config/rules.toml"
  content      = var.rules_toml
  content_type = "application/toml"
}

locals {
  policy_key = "config/policy.toml"
}
