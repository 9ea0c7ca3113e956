variable "name" {
  description = "Prefix of every name in the deployment."
  type        = string
}

variable "tags" {
  description = "Tags for all resources that support tags."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "sweeps" {
  description = "Function and queue of each shard, in the order of the shards."
  type = list(object({
    function_name = string
    queue_name    = string
  }))
}

variable "dead_letter_queue_name" {
  description = "Name of the queue of refused messages."
  type        = string
}

variable "api_id" {
  description = "Identifier of the tune API."
  type        = string
}

variable "sweep_interval_minutes" {
  description = "Minutes between the start of two sweeps; null if no schedule starts sweeps."
  type        = number
  default     = null
}

variable "sweeper_timeout_seconds" {
  description = "Timeout of one sweep in seconds."
  type        = number
}

variable "alarms" {
  description = "Whether to create the alarms."
  type        = bool
  default     = true
  nullable    = false
}

variable "silent_probes" {
  description = "Number of silent probes of running instances from which the alarm silent-probes is raised."
  type        = number
  default     = 5
  nullable    = false
}

variable "topic_arn" {
  description = "SNS topic that receives alarms; null creates a topic."
  type        = string
  default     = null
}

variable "emails" {
  description = "Addresses that subscribe to the created topic."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "dashboard" {
  description = "Whether to create the dashboard."
  type        = bool
  default     = false
  nullable    = false
}

variable "monthly_budget_usd" {
  description = "Budget for the resources with the tag application, in USD a month; null for none."
  type        = number
  default     = null
}
