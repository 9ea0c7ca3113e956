# Tables of the lake in Glue, and a workgroup of Athena that limits the bytes that a query scans. Athena takes rows and
# files from the log of each Delta table, so no crawler and no partitions in Glue are needed.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.name

  # Written by scripts/athena-catalog.
  catalog = jsondecode(file("${path.module}/catalog.json"))

  # SQL has no hyphen in a name without quotes.
  database_name = replace(var.name, "-", "_")
  bucket_arn    = "arn:${local.partition}:s3:::${var.bucket}"
  partition_key = "dt"
}

resource "aws_glue_catalog_database" "lake" {
  name        = local.database_name
  description = "Lake of Ebb"
  tags        = var.tags
}

# Source: "Synchronize Delta Lake metadata" (Athena user guide). Views need all columns here; tables do not.
resource "aws_glue_catalog_table" "lake" {
  for_each = local.catalog.tables

  name          = each.key
  database_name = aws_glue_catalog_database.lake.name
  description   = each.value.description
  table_type    = "EXTERNAL_TABLE"

  parameters = {
    EXTERNAL                     = "TRUE"
    "spark.sql.sources.provider" = "delta"
  }

  partition_keys {
    name = local.partition_key
    type = one([for column in each.value.columns : column.type if column.name == local.partition_key])
  }

  storage_descriptor {
    location      = "s3://${var.bucket}/lake/${each.key}/"
    input_format  = "org.apache.hadoop.mapred.SequenceFileInputFormat"
    output_format = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"

    ser_de_info {
      serialization_library = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"

      parameters = {
        path                   = "s3://${var.bucket}/lake/${each.key}/"
        "serialization.format" = "1"
      }
    }

    dynamic "columns" {
      for_each = [for column in each.value.columns : column if column.name != local.partition_key]

      content {
        name = columns.value.name
        type = columns.value.type
      }
    }
  }
}

resource "aws_athena_workgroup" "lake" {
  name          = var.name
  description   = "Queries over the lake of Ebb"
  force_destroy = true
  tags          = var.tags

  configuration {
    bytes_scanned_cutoff_per_query     = var.scan_limit_bytes
    enforce_workgroup_configuration    = true
    publish_cloudwatch_metrics_enabled = false

    # Delta tables need version 3.
    engine_version {
      selected_engine_version = "Athena engine version 3"
    }

    result_configuration {
      output_location       = "s3://${var.bucket}/${var.results_prefix}"
      expected_bucket_owner = local.account

      encryption_configuration {
        encryption_option = "SSE_S3"
      }
    }
  }
}

resource "aws_athena_named_query" "lake" {
  for_each = local.catalog.queries

  name        = each.key
  description = each.value.description
  database    = aws_glue_catalog_database.lake.name
  workgroup   = aws_athena_workgroup.lake.id
  query       = each.value.sql
}
