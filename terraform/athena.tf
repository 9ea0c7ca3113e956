# Tables of the lake for Athena. Results of queries are stored in a folder of the bucket.

locals {
  query_results = "queries"
}

module "athena" {
  source = "./modules/athena"
  count  = var.athena ? 1 : 0

  name             = var.name
  tags             = local.tags
  bucket           = local.bucket_name
  results_prefix   = "${local.query_results}/"
  iam_path         = var.iam_path
  scan_limit_bytes = var.athena_scan_limit_bytes
}
