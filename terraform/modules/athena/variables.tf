variable "name" {
  description = "Prefix of every name in the deployment, and name of the workgroup. Hyphens are underscores in the name of the database."
  type        = string
}

variable "tags" {
  description = "Tags for all resources that support tags."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "iam_path" {
  description = "IAM path of the policy for people who query."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([A-Za-z0-9+=,.@_-]+/)*$", var.iam_path)) && length(var.iam_path) <= 512
    error_message = "iam_path must begin and end with a slash, such as /teams/ebb/, and have at most 512 characters."
  }
}

variable "bucket" {
  description = "Bucket with the lake; results of queries are stored there too."
  type        = string
}

variable "results_prefix" {
  description = "Folder for the results of queries, with a slash at the end."
  type        = string
  default     = "queries/"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]*/$", var.results_prefix))
    error_message = "results_prefix must be one folder with a slash at the end, such as queries/."
  }
}

variable "scan_limit_bytes" {
  description = "Bytes that a query may scan before Athena cancels it."
  type        = number

  validation {
    condition     = var.scan_limit_bytes >= 10485760 && floor(var.scan_limit_bytes) == var.scan_limit_bytes
    error_message = "scan_limit_bytes must be a whole number, at least 10485760."
  }
}
