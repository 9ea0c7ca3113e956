variable "platform_endpoint" {
  description = "URL of the simulator of the AWS services."
  type        = string
  default     = "http://127.0.0.1:4566"
}

variable "region" {
  description = "Simulated region of the deployment."
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
  description = "Number of shards that divide the nodes."
  type        = number
  default     = 1
}

variable "slack_webhook_url" {
  description = "URL of a local receiver of notifications."
  type        = string
  default     = null
  sensitive   = true
}

variable "email_from" {
  description = "Sender of notifications."
  type        = string
  default     = null
}

variable "email_to" {
  description = "Recipients of notifications."
  type        = list(string)
  default     = []
}

variable "schedule_state" {
  description = "State of the schedule; with DISABLED, sweeps run only on request."
  type        = string
  default     = "DISABLED"
}

variable "extra_environment" {
  description = "Additional environment variables of both functions."
  type        = map(string)
  default     = {}
}
