variable "sweeper_role_arn" {
  description = "Role of the sweeper: output sweeper_role_arn of the deployment."
  type        = string
}

variable "role_name" {
  description = "Name of the role: member_role_name of the deployment."
  type        = string
  default     = "ebb-member"
}

variable "external_id" {
  description = "External id that the sweep sends: member_external_id of the deployment."
  type        = string
  default     = null
}

variable "organization_id" {
  description = "Required organization of the sweeper's account, such as o-a1b2c3d4e5; null for any."
  type        = string
  default     = null

  validation {
    condition     = var.organization_id == null || can(regex("^o-[a-z0-9]{10,32}$", var.organization_id))
    error_message = "organization_id is the id of an organization, such as o-a1b2c3d4e5."
  }
}

variable "tags" {
  description = "Tags of the role."
  type        = map(string)
  default     = {}
}
