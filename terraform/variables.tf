variable "name" {
  description = "Prefix of every name in this deployment."
  type        = string
  default     = "ebb"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "name is 2 to 20 characters: a lower-case letter, then lower-case letters, digits and hyphens."
  }
}

variable "tags" {
  description = "Tags for everything that can carry them."
  type        = map(string)
  default     = {}
}

variable "bucket_name" {
  description = "Name of the bucket; null makes one of name, account and region."
  type        = string
  default     = null

  validation {
    condition     = var.bucket_name == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket_name))
    error_message = "bucket_name is 3 to 63 lower-case letters, digits, dots and hyphens, and begins and ends with a letter or digit."
  }
}

variable "bucket_force_destroy" {
  description = "Whether `terraform destroy` may delete a bucket that still holds the lake."
  type        = bool
  default     = false
}

variable "ingest_retention_days" {
  description = "Days after which objects that no sweep took, and refused ones, are deleted."
  type        = number
  default     = 30

  validation {
    condition     = var.ingest_retention_days >= 14
    error_message = "ingest_retention_days is at least 14, as long as the queue keeps its messages."
  }
}

variable "version_retention_days" {
  description = "Days for which earlier versions of decisions and configuration are kept."
  type        = number
  default     = 90

  validation {
    condition     = var.version_retention_days >= 1 && floor(var.version_retention_days) == var.version_retention_days
    error_message = "version_retention_days is a whole number, at least 1."
  }
}

variable "report_retention_days" {
  description = "Days for which dated reports are kept; the latest one stays."
  type        = number
  default     = 90

  validation {
    condition     = var.report_retention_days >= 1
    error_message = "report_retention_days is at least 1."
  }
}

variable "log_retention_days" {
  description = "Days for which CloudWatch keeps the programs' logs and the API's access log."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365], var.log_retention_days)
    error_message = "log_retention_days is one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365."
  }
}

variable "sweeper_package" {
  description = "Path of the sweeper's zip (made by scripts/package: one file, `bootstrap`)."
  type        = string

  validation {
    condition     = endswith(var.sweeper_package, ".zip") && fileexists(var.sweeper_package)
    error_message = "sweeper_package must be the path of an existing .zip; scripts/package makes one from the built program."
  }
}

variable "tune_package" {
  description = "Path of the tune API's zip (made by scripts/package: one file, `bootstrap`)."
  type        = string

  validation {
    condition     = endswith(var.tune_package, ".zip") && fileexists(var.tune_package)
    error_message = "tune_package must be the path of an existing .zip; scripts/package makes one from the built program."
  }
}

variable "probe_package" {
  description = "Path of the probe's archive (made by scripts/package-probe), to be fetched by nodes; null leaves installing to you."
  type        = string
  default     = null

  validation {
    condition     = var.probe_package == null || can(filesha256(var.probe_package))
    error_message = "probe_package must be the path of an existing archive; scripts/package-probe makes one from the built probe."
  }
}

variable "architecture" {
  description = "Architecture of the programs in both packages: x86_64 or arm64."
  type        = string
  default     = "x86_64"

  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "architecture is x86_64 or arm64."
  }
}

variable "sweeper_memory_mb" {
  description = "Memory of the sweeper; its share of CPU grows with it."
  type        = number
  default     = 1024

  validation {
    condition     = var.sweeper_memory_mb >= 256 && var.sweeper_memory_mb <= 10240
    error_message = "sweeper_memory_mb is between 256 and 10240."
  }
}

variable "sweeper_timeout_seconds" {
  description = "Time limit of one sweep; it stops at 60 % of it and the next goes on."
  type        = number
  default     = 300

  validation {
    condition     = var.sweeper_timeout_seconds >= 30 && var.sweeper_timeout_seconds <= 900
    error_message = "sweeper_timeout_seconds is between 30 and 900."
  }
}

variable "sweeper_reserved_concurrency" {
  description = "Sweeps at once: 1, or -1 for no reservation in an account whose limit is too small for one."
  type        = number
  default     = 1

  validation {
    condition     = contains([-1, 1], var.sweeper_reserved_concurrency)
    error_message = "sweeper_reserved_concurrency is 1, or -1 where the account cannot reserve any."
  }
}

variable "tune_memory_mb" {
  description = "Memory of the tune API; its share of CPU grows with it."
  type        = number
  default     = 512

  validation {
    condition     = var.tune_memory_mb >= 128 && var.tune_memory_mb <= 10240
    error_message = "tune_memory_mb is between 128 and 10240."
  }
}

variable "tune_timeout_seconds" {
  description = "Time limit of one API request; the gateway itself gives up after 30."
  type        = number
  default     = 29

  validation {
    condition     = var.tune_timeout_seconds >= 1 && var.tune_timeout_seconds <= 30
    error_message = "tune_timeout_seconds is between 1 and 30."
  }
}

variable "sweep_interval_minutes" {
  description = "Minutes from one sweep to the next."
  type        = number
  default     = 10

  validation {
    condition     = var.sweep_interval_minutes >= 1 && floor(var.sweep_interval_minutes) == var.sweep_interval_minutes
    error_message = "sweep_interval_minutes is a whole number, at least 1."
  }
}

variable "schedule_state" {
  description = "ENABLED, or DISABLED to invoke the sweeper by hand only."
  type        = string
  default     = "ENABLED"

  validation {
    condition     = contains(["ENABLED", "DISABLED"], var.schedule_state)
    error_message = "schedule_state is ENABLED or DISABLED."
  }
}

variable "regions" {
  description = "Regions to sweep; empty means every region that the account has enabled."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for region in var.regions : can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", region))])
    error_message = "regions are names such as eu-central-1."
  }
}

variable "member_accounts" {
  description = "Other accounts to scan: their ids, or \"organization\" for all of them. Each needs the role of terraform/member."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for account in var.member_accounts : account == "organization" || can(regex("^[0-9]{12}$", account))])
    error_message = "member_accounts holds account ids of 12 digits, or \"organization\"."
  }
}

variable "member_role_name" {
  description = "Name of the role that is assumed in each member account."
  type        = string
  default     = "ebb-member"
}

variable "member_external_id" {
  description = "External id that the members' roles require; null for none."
  type        = string
  default     = null
}

variable "shards" {
  description = "How many sweeps share the nodes, each with a queue and a function: one for every 100,000 nodes. Before there are fewer, probes must know the shorter queue_url and the queues that go be empty."
  type        = number
  default     = 1

  validation {
    condition     = var.shards >= 1 && var.shards <= 99 && floor(var.shards) == var.shards
    error_message = "shards is a whole number from 1 to 99."
  }
}

variable "senders" {
  description = "Which credentials may send for a node, by kind: ec2, eks_pod_identity, irsa, roles_anywhere. See \"Who can speak for a node\"."
  type = object({
    ec2 = optional(object({
      role_arns = optional(list(string), [])
    }))
    eks_pod_identity = optional(object({
      role_arns    = list(string)
      cluster_arns = list(string)
    }))
    irsa = optional(object({
      role_arns          = list(string)
      oidc_provider_arns = list(string)
    }))
    roles_anywhere = optional(object({
      role_arns    = list(string)
      common_names = list(string)
    }))
  })
  default  = { ec2 = {} }
  nullable = false

  validation {
    condition     = length([for sender in values(var.senders) : true if sender != null]) > 0
    error_message = "senders names at least one kind, such as { ec2 = {} }."
  }

  validation {
    condition = alltrue(flatten([
      for sender in values(var.senders) : [
        for role in try(sender.role_arns, []) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$", role))
      ]
    ]))
    error_message = "role_arns of senders are ARNs of roles, such as arn:aws:iam::123456789012:role/probe."
  }

  validation {
    condition = alltrue([
      for kind, sender in var.senders : kind == "ec2" || alltrue([for values in values(sender) : length(values) > 0]) if sender != null
    ])
    error_message = "Every kind of senders other than ec2 needs role_arns and what its credentials must prove."
  }

  validation {
    condition = alltrue(concat(
      [for arn in try(var.senders.eks_pod_identity.cluster_arns, []) : can(regex("^arn:[a-z-]+:eks:[a-z0-9-]+:[0-9]{12}:cluster/[A-Za-z0-9_-]+$", arn))],
      [for arn in try(var.senders.irsa.oidc_provider_arns, []) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/[^*?$]+$", arn))],
      [for name in try(var.senders.roles_anywhere.common_names, []) : can(regex("^[^$?]*[^$?*. ][^$?]*$", name))],
    ))
    error_message = "senders: cluster_arns and oidc_provider_arns are ARNs; common_names are names, or patterns such as *.cluster.example.org, but not * alone."
  }
}

variable "api_authorization" {
  description = "Authorization of the API: AWS_IAM (signed requests), JWT (tokens of api_jwt_issuer) or NONE (everybody: for simulators)."
  type        = string
  default     = "AWS_IAM"

  validation {
    condition     = contains(["AWS_IAM", "JWT", "NONE"], var.api_authorization)
    error_message = "api_authorization is AWS_IAM, JWT or NONE."
  }
}

variable "api_jwt_issuer" {
  description = "Issuer of the tokens that the API accepts, with api_authorization JWT: the URL in their `iss`."
  type        = string
  default     = null

  validation {
    condition     = var.api_jwt_issuer == null || can(regex("^https://[^\\s]+$", var.api_jwt_issuer))
    error_message = "api_jwt_issuer is a URL of https."
  }
}

variable "api_jwt_audience" {
  description = "For whom those tokens must be: the `aud` or `client_id` of one of these."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for audience in var.api_jwt_audience : length(audience) > 0])
    error_message = "api_jwt_audience holds no empty text."
  }
}

variable "api_jwt_read_scopes" {
  description = "Scopes that may read over the API, one is enough; [] lets every token of the audience read."
  type        = list(string)
  default     = ["ebb.read"]

  validation {
    condition     = alltrue([for scope in var.api_jwt_read_scopes : can(regex("^[!#-\\[\\]-~]+$", scope))])
    error_message = "api_jwt_read_scopes holds scopes of OAuth 2.0: no space, quote or backslash."
  }
}

variable "api_jwt_write_scopes" {
  description = "Scopes that may dismiss, snooze and reopen findings over the API, one is enough; they may read, too."
  type        = list(string)
  default     = ["ebb.write"]

  validation {
    condition     = alltrue([for scope in var.api_jwt_write_scopes : can(regex("^[!#-\\[\\]-~]+$", scope))])
    error_message = "api_jwt_write_scopes holds scopes of OAuth 2.0: no space, quote or backslash."
  }
}

variable "api_rate_limit" {
  description = "Requests a second that the API takes on average, over all callers; more are answered with 429."
  type        = number
  default     = 20

  validation {
    condition     = var.api_rate_limit >= 1 && var.api_rate_limit <= 10000
    error_message = "api_rate_limit is between 1 and 10000."
  }
}

variable "api_burst_limit" {
  description = "Requests that the API takes at once above the rate."
  type        = number
  default     = 40

  validation {
    condition     = var.api_burst_limit >= 1 && var.api_burst_limit <= 5000 && floor(var.api_burst_limit) == var.api_burst_limit
    error_message = "api_burst_limit is a whole number between 1 and 5000."
  }
}

variable "policy_toml" {
  description = "Content of config/policy.toml: thresholds of the judgement. Null leaves the built-in defaults."
  type        = string
  default     = null
}

variable "rules_toml" {
  description = "Content of config/rules.toml: which processes are background. Null leaves the built-in defaults."
  type        = string
  default     = null
}

variable "slack_webhook_url" {
  description = "Slack webhook for the digest, kept in Secrets Manager. Null sends none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.slack_webhook_url == null || can(regex("^https?://", var.slack_webhook_url))
    error_message = "slack_webhook_url is a URL."
  }
}

variable "slack_channels" {
  description = "Webhooks of further Slack channels by name, or their ids with slack_bot_token; the policy's routes send owners' findings to them."
  type        = map(string)
  default     = {}
  sensitive   = true
}

variable "slack_bot_token" {
  description = "Bot token (scopes chat:write and channels:history, groups:history in private channels) instead of slack_webhook_url: updates then go in the thread of what they are about, and no message is posted twice."
  type        = string
  default     = null
  sensitive   = true
}

variable "slack_channel_id" {
  description = "Channel that the bot posts to; needed with slack_bot_token."
  type        = string
  default     = null
}

variable "events_webhook_url" {
  description = "Where each change of a finding is posted as a signed CloudEvent; needs events_webhook_key. Null sends none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.events_webhook_url == null || can(regex("^https?://", var.events_webhook_url))
    error_message = "events_webhook_url is a URL."
  }
}

variable "events_webhook_key" {
  description = "Key of the signatures as Standard Webhooks has it: whsec_ and 24 to 64 bytes in base64; two with a space between while one is changed."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.events_webhook_key == null || can(regex("^whsec_[A-Za-z0-9+/=]+( whsec_[A-Za-z0-9+/=]+)*$", var.events_webhook_key))
    error_message = "events_webhook_key is whsec_ and base64, such as whsec_$(openssl rand -base64 32)."
  }
}

variable "topic_arn" {
  description = "SNS topic that takes what changed as CloudEvents, for everything else. Null sends none."
  type        = string
  default     = null

  validation {
    condition     = var.topic_arn == null || can(regex("^arn:[^:]+:sns:[^:]+:[0-9]+:[A-Za-z0-9_.-]+$", var.topic_arn))
    error_message = "topic_arn is the ARN of an SNS topic."
  }
}

variable "email_contact_list" {
  description = "Contact list of SES (an account has one): emails then unsubscribe at one click. Null asks for an email to the sender instead."
  type        = string
  default     = null
}

variable "email_from" {
  description = "Sender of the digest by email, an identity that SES has verified. Null sends none."
  type        = string
  default     = null

  validation {
    condition     = var.email_from == null || can(regex("^[^@\\s]+@[^@\\s]+$", var.email_from))
    error_message = "email_from is one bare address, such as ebb@example.org."
  }
}

variable "email_to" {
  description = "Recipients of the digest by email."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for address in var.email_to : can(regex("^[^@,\\s]+@[^@,\\s]+$", address))])
    error_message = "email_to holds bare addresses, such as team@example.org."
  }
}

variable "extra_environment" {
  description = "More environment for both programs: endpoints of simulators or private endpoints (AWS_ENDPOINT_URL_<SERVICE>), a copy of the Spot Instance Advisor's file (EBB_SPOT_ADVISOR_URL), log level."
  type        = map(string)
  default     = {}
}
