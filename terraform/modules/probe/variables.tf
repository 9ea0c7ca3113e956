variable "package" {
  description = "The package of the probe and where it sends: output probe of the deployment."
  type = object({
    bucket    = string
    key       = string
    queue_url = string
    region    = string
    sha256    = string
  })
  nullable = false

  # The values are part of a shell script, in single quotes.
  validation {
    condition     = alltrue([for value in values(var.package) : can(regex("^[A-Za-z0-9.:/_,-]+$", value))])
    error_message = "package must be the output probe of the deployment, which needs a package of the probe."
  }
}

variable "targets" {
  description = "Machines on which Systems Manager installs the probe: tags such as { \"tag:team\" = [\"research\"] }, or { InstanceIds = [\"*\"] } for all managed nodes of this account and region. With {} the module only renders user data."
  type        = map(list(string))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for key in keys(var.targets) : key == "InstanceIds" || startswith(key, "tag:") || startswith(key, "resource-groups:")])
    error_message = "targets must have keys such as tag:NAME, InstanceIds or resource-groups:Name."
  }
}

variable "name" {
  description = "Prefix of every name."
  type        = string
  default     = "ebb"
  nullable    = false
}

variable "schedule_expression" {
  description = "How often Systems Manager checks that the probe is installed and runs."
  type        = string
  default     = "rate(1 day)"
  nullable    = false
}

variable "max_concurrency" {
  description = "Number or percentage of machines that install at the same time."
  type        = string
  default     = "10%"
  nullable    = false
}

variable "max_errors" {
  description = "Number or percentage of failed machines after which no other machine starts to install."
  type        = string
  default     = "10%"
  nullable    = false
}

variable "tags" {
  description = "Tags for all resources that support tags."
  type        = map(string)
  default     = {}
  nullable    = false
}
