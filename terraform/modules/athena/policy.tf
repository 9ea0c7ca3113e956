# Permissions of a person who queries the lake. They change nothing but results of queries.

resource "aws_iam_policy" "analyst" {
  name        = "${var.name}-analyst"
  path        = var.iam_path
  description = "Queries over the lake of Ebb in the workgroup ${var.name}."
  policy      = data.aws_iam_policy_document.analyst.json
  tags        = var.tags
}

data "aws_iam_policy_document" "analyst" {
  statement {
    sid = "Query"

    actions = [
      "athena:BatchGetNamedQuery",
      "athena:BatchGetQueryExecution",
      "athena:GetNamedQuery",
      "athena:GetQueryExecution",
      "athena:GetQueryResults",
      "athena:GetQueryResultsStream",
      "athena:GetQueryRuntimeStatistics",
      "athena:GetWorkGroup",
      "athena:ListNamedQueries",
      "athena:ListQueryExecutions",
      "athena:StartQueryExecution",
      "athena:StopQueryExecution",
    ]

    resources = ["arn:${local.partition}:athena:${local.region}:${local.account}:workgroup/${var.name}"]
  }

  statement {
    sid = "ReadCatalog"

    actions = [
      "glue:GetDatabase",
      "glue:GetDatabases",
      "glue:GetPartition",
      "glue:GetPartitions",
      "glue:GetTable",
      "glue:GetTables",
    ]

    resources = [for resource in ["catalog", "database/${local.database_name}", "table/${local.database_name}/*"] :
      "arn:${local.partition}:glue:${local.region}:${local.account}:${resource}"
    ]
  }

  statement {
    sid       = "FindBucket"
    actions   = ["s3:GetBucketLocation"]
    resources = [local.bucket_arn]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "ListLakeAndResults"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket_arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["lake/*", "${var.results_prefix}*"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "ReadLake"
    actions   = ["s3:GetObject"]
    resources = ["${local.bucket_arn}/lake/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "StoreResults"
    actions   = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListMultipartUploadParts", "s3:PutObject"]
    resources = ["${local.bucket_arn}/${var.results_prefix}*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }
}
