variable "sweeper_role_arn" {
  description = "The role of the sweeper that may look: output sweeper_role_arn of the deployment."
  type        = string
}

variable "role_name" {
  description = "Name of the role; member_role_name of the deployment."
  type        = string
  default     = "ebb-member"
}

variable "external_id" {
  description = "What the sweeper has to say to be let in; member_external_id of the deployment."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the role."
  type        = map(string)
  default     = {}
}
