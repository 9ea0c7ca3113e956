variable "sweeper_role_arn" {
  description = "Role of the sweeper: output sweeper_role_arn of the deployment."
  type        = string
}

variable "organizational_unit_ids" {
  description = "Units whose accounts get the role: the root, such as r-a1b2, for all accounts."
  type        = list(string)

  validation {
    condition     = length(var.organizational_unit_ids) > 0 && alltrue([for id in var.organizational_unit_ids : can(regex("^(r-[a-z0-9]{4,32}|ou-[a-z0-9]{4,32}-[a-z0-9]{8,32})$", id))])
    error_message = "organizational_unit_ids must contain ids such as ou-a1b2-c3d4e5f6, or the root, such as r-a1b2."
  }
}

variable "call_as" {
  description = "Account that manages the StackSet: SELF in the management account, otherwise DELEGATED_ADMIN."
  type        = string
  default     = "SELF"
  nullable    = false

  validation {
    condition     = contains(["SELF", "DELEGATED_ADMIN"], var.call_as)
    error_message = "call_as must be SELF or DELEGATED_ADMIN."
  }
}

variable "role_name" {
  description = "Name of the StackSet and of the role: member_role_name of the deployment."
  type        = string
  default     = "ebb-member"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,63}$", var.role_name))
    error_message = "role_name is also the name of the StackSet, so it has only letters, digits and hyphens, and begins with a letter."
  }
}

variable "iam_path" {
  description = "IAM path of the role: member_iam_path of the deployment."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([A-Za-z0-9+=,.@_-]+/)*$", var.iam_path)) && length(var.iam_path) <= 512
    error_message = "iam_path must begin and end with a slash, such as /teams/ebb/, and have at most 512 characters."
  }
}

variable "permissions_boundary_name" {
  description = "Policy of each account that limits the permissions of the role: its name, with its path if it has one. Null for none."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_name == null || can(regex("^[A-Za-z0-9+=,.@_-]+(/[A-Za-z0-9+=,.@_-]+)*$", var.permissions_boundary_name))
    error_message = "permissions_boundary_name must be the name of a policy, such as boundary or teams/boundary."
  }
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
}

variable "tags" {
  description = "Tags of the StackSet and of its roles."
  type        = map(string)
  default     = {}
  nullable    = false
}
