variable "name" {
  description = "Prefix of every name in the deployment, and name of the workgroup. Hyphens are underscores in the name of the database."
  type        = string
}

variable "tags" {
  description = "Tags for all resources that support tags."
  type        = map(string)
  default     = {}
}

variable "bucket" {
  description = "Bucket with the lake; results of queries are stored there too."
  type        = string
}

variable "results_prefix" {
  description = "Folder for the results of queries, with a slash at the end."
  type        = string
  default     = "queries/"

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
