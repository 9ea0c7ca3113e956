variable "sweeper_role_arn" {
  description = "Role of the sweeper: output sweeper_role_arn of the deployment."
  type        = string
}

variable "role_name" {
  description = "Name of the role: member_role_name of the deployment."
  type        = string
  default     = "ebb-member"
  nullable    = false
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

variable "permissions_boundary_arn" {
  description = "Policy of this account that limits the permissions of the role; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/[A-Za-z0-9+=,.@_/-]+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn must be the ARN of a policy, such as arn:aws:iam::123456789012:policy/boundary."
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

  validation {
    condition     = var.organization_id == null || can(regex("^o-[a-z0-9]{10,32}$", var.organization_id))
    error_message = "organization_id is the id of an organization, such as o-a1b2c3d4e5."
  }
}

variable "tags" {
  description = "Tags of the role."
  type        = map(string)
  default     = {}
  nullable    = false
}
