variable "platform_endpoint" {
  description = "Simulator of storage, queues, roles, programs, schedule, API, secrets and mail."
  type        = string
  default     = "http://127.0.0.1:4566"
}

variable "region" {
  description = "Region that the deployment pretends to be in."
  type        = string
  default     = "us-east-1"
}

variable "name" {
  description = "Prefix of every name."
  type        = string
  default     = "ebb"
}

variable "sweeper_package" {
  description = "Path of the sweeper's zip."
  type        = string
}

variable "tune_package" {
  description = "Path of the tune API's zip."
  type        = string
}

variable "policy_toml" {
  description = "Content of config/policy.toml."
  type        = string
  default     = null
}

variable "rules_toml" {
  description = "Content of config/rules.toml."
  type        = string
  default     = null
}

variable "regions" {
  description = "Regions to sweep."
  type        = list(string)
  default     = []
}

variable "shards" {
  description = "Queues and sweeps among which the nodes are divided."
  type        = number
  default     = 1
}

variable "slack_webhook_url" {
  description = "Where a local receiver takes the digest."
  type        = string
  default     = null
  sensitive   = true
}

variable "email_from" {
  description = "Sender of the digest."
  type        = string
  default     = null
}

variable "email_to" {
  description = "Recipients of the digest."
  type        = list(string)
  default     = []
}

variable "schedule_state" {
  description = "DISABLED, so that a sweep runs when it is asked for."
  type        = string
  default     = "DISABLED"
}

variable "extra_environment" {
  description = "More environment for both programs."
  type        = map(string)
  default     = {}
}
