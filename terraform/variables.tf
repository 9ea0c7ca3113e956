variable "name" {
  description = "Prefix of every name in this deployment."
  type        = string
  default     = "ebb"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "name must be 2 to 20 characters: a lower-case letter, then lower-case letters, digits and hyphens."
  }
}

variable "tags" {
  description = "Tags for all resources that support tags."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "iam_path" {
  description = "IAM path of the roles, the policies and the instance profile, such as /teams/ebb/. A change creates them again."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([A-Za-z0-9+=,.@_-]+/)*$", var.iam_path)) && length(var.iam_path) <= 512
    error_message = "iam_path must begin and end with a slash, such as /teams/ebb/, and have at most 512 characters."
  }
}

variable "permissions_boundary_arn" {
  description = "Policy that limits the permissions of every role in this account; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/[A-Za-z0-9+=,.@_/-]+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn must be the ARN of a policy, such as arn:aws:iam::123456789012:policy/boundary."
  }
}

variable "bucket_name" {
  description = "Name of the bucket; null derives it from name, account and region."
  type        = string
  default     = null

  validation {
    condition     = var.bucket_name == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.bucket_name))
    error_message = "bucket_name must be 3 to 63 lower-case letters, digits, dots and hyphens, with a letter or digit at both ends."
  }
}

variable "bucket_force_destroy" {
  description = "Whether `terraform destroy` may delete a bucket that contains the lake."
  type        = bool
  default     = false
  nullable    = false
}

variable "ingest_retention_days" {
  description = "Days after which objects that no sweep read, and refused objects, are deleted."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.ingest_retention_days >= 14 && floor(var.ingest_retention_days) == var.ingest_retention_days
    error_message = "ingest_retention_days must be a whole number, at least 14, as long as the queue keeps its messages."
  }
}

variable "version_retention_days" {
  description = "Days for which earlier versions of decisions and configuration are stored."
  type        = number
  default     = 90
  nullable    = false

  validation {
    condition     = var.version_retention_days >= 1 && floor(var.version_retention_days) == var.version_retention_days
    error_message = "version_retention_days must be a whole number, at least 1."
  }
}

variable "report_retention_days" {
  description = "Days for which dated reports are stored; the latest report stays."
  type        = number
  default     = 90
  nullable    = false

  validation {
    condition     = var.report_retention_days >= 1 && floor(var.report_retention_days) == var.report_retention_days
    error_message = "report_retention_days must be a whole number, at least 1."
  }
}

variable "log_retention_days" {
  description = "Days for which CloudWatch stores the logs of the functions and the access log of the API."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365], var.log_retention_days)
    error_message = "log_retention_days must be one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365."
  }
}

variable "release" {
  description = "Release from which Terraform downloads all packages: the https address of its folder, its version, and the SHA-256 of each package, from its SHA256SUMS. Without the checksum of the probe, the probe is not stored. Null for local packages."
  type = object({
    url     = string
    version = string
    sha256 = object({
      sweeper = string
      tune    = string
      probe   = optional(string)
    })
  })
  default = null

  # As in install.sh: http only from this machine, because only digits may follow the colon.
  validation {
    condition     = var.release == null || can(regex("^(https://[A-Za-z0-9.-]+|http://(localhost|127\\.0\\.0\\.1))(:[0-9]+)?(/[A-Za-z0-9._~/%@:+-]*)?$", var.release.url))
    error_message = "url of release must be an https address of a folder, such as https://example.org/ebb/0.2.0."
  }

  validation {
    condition     = var.release == null || can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+[A-Za-z0-9.+-]*$", var.release.version))
    error_message = "version of release must be a version without a v, such as 0.2.0."
  }

  validation {
    condition     = alltrue([for sha256 in try(values(var.release.sha256), []) : can(regex("^[0-9a-f]{64}$", sha256)) if sha256 != null])
    error_message = "sha256 of release must contain checksums of 64 lower-case hexadecimal digits, as in SHA256SUMS of the release."
  }
}

variable "sweeper_package" {
  description = "Path of the sweeper's zip file, from a release or scripts/package. Requires tune_package; null with release."
  type        = string
  default     = null

  validation {
    condition     = try(endswith(var.sweeper_package, ".zip") && fileexists(var.sweeper_package), var.sweeper_package == null)
    error_message = "sweeper_package must be the path of an existing .zip; create it with scripts/package."
  }
}

variable "tune_package" {
  description = "Path of the zip file of the tune API, from a release or scripts/package. Requires sweeper_package; null with release."
  type        = string
  default     = null

  validation {
    condition     = try(endswith(var.tune_package, ".zip") && fileexists(var.tune_package), var.tune_package == null)
    error_message = "tune_package must be the path of an existing .zip; create it with scripts/package."
  }
}

variable "probe_package" {
  description = "Path of the probe's archive, from a release or scripts/package-probe, for nodes of the same processor; null with release, or if you install the probe yourself."
  type        = string
  default     = null

  validation {
    condition     = var.probe_package == null || can(filesha256(var.probe_package))
    error_message = "probe_package must be the path of an existing archive; create it with scripts/package-probe."
  }
}

variable "architecture" {
  description = "Architecture of the programs in both packages, as scripts/package prints it: x86_64 or arm64. By default arm64 for release and for packages with aarch64 in their names, and x86_64 for others. Lambda costs a fifth less with arm64."
  type        = string
  default     = null

  validation {
    condition     = var.architecture == null || contains(["x86_64", "arm64"], coalesce(var.architecture, "x86_64"))
    error_message = "architecture must be x86_64 or arm64, or null to take it from the names of the packages."
  }
}

variable "sweeper_memory_mb" {
  description = "Memory of the sweeper in MB; its CPU share grows with it."
  type        = number
  default     = 1024
  nullable    = false

  validation {
    condition     = var.sweeper_memory_mb >= 256 && var.sweeper_memory_mb <= 10240 && floor(var.sweeper_memory_mb) == var.sweeper_memory_mb
    error_message = "sweeper_memory_mb must be a whole number between 256 and 10240."
  }
}

variable "sweeper_timeout_seconds" {
  description = "Timeout of one sweep in seconds. A sweep stops after 60 % of it, and the next one continues."
  type        = number
  default     = 300
  nullable    = false

  validation {
    condition     = var.sweeper_timeout_seconds >= 30 && var.sweeper_timeout_seconds <= 900 && floor(var.sweeper_timeout_seconds) == var.sweeper_timeout_seconds
    error_message = "sweeper_timeout_seconds must be a whole number between 30 and 900."
  }
}

variable "sweeper_reserved_concurrency" {
  description = "Reserved concurrency of the sweeper: 1, or -1 for none if the limit of the account is too low."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = contains([-1, 1], var.sweeper_reserved_concurrency)
    error_message = "sweeper_reserved_concurrency must be 1, or -1 if the account cannot reserve any."
  }
}

variable "tune_memory_mb" {
  description = "Memory of the tune API in MB; its CPU share grows with it."
  type        = number
  default     = 512
  nullable    = false

  validation {
    condition     = var.tune_memory_mb >= 128 && var.tune_memory_mb <= 10240 && floor(var.tune_memory_mb) == var.tune_memory_mb
    error_message = "tune_memory_mb must be a whole number between 128 and 10240."
  }
}

variable "tune_timeout_seconds" {
  description = "Timeout of one API request in seconds; the timeout of the gateway is 30."
  type        = number
  default     = 29
  nullable    = false

  validation {
    condition     = var.tune_timeout_seconds >= 1 && var.tune_timeout_seconds <= 30 && floor(var.tune_timeout_seconds) == var.tune_timeout_seconds
    error_message = "tune_timeout_seconds must be a whole number between 1 and 30."
  }
}

variable "sweep_interval_minutes" {
  description = "Minutes between the start of two sweeps."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.sweep_interval_minutes >= 1 && floor(var.sweep_interval_minutes) == var.sweep_interval_minutes
    error_message = "sweep_interval_minutes must be a whole number, at least 1."
  }
}

variable "schedule_state" {
  description = "State of the schedule: ENABLED or DISABLED. With DISABLED, invoke the sweeper yourself."
  type        = string
  default     = "ENABLED"
  nullable    = false

  validation {
    condition     = contains(["ENABLED", "DISABLED"], var.schedule_state)
    error_message = "schedule_state must be ENABLED or DISABLED."
  }
}

variable "regions" {
  description = "Regions to sweep; empty for all enabled regions of the account."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for region in var.regions : can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", region))])
    error_message = "regions must be names such as eu-central-1."
  }
}

variable "member_accounts" {
  description = "Other accounts to scan: their ids, or \"organization\" for all accounts. Each needs the role of terraform/modules/member."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for account in var.member_accounts : account == "organization" || can(regex("^[0-9]{12}$", account))])
    error_message = "member_accounts must contain account ids of 12 digits, or \"organization\"."
  }
}

variable "member_role_name" {
  description = "Name of the role that the sweeper assumes in each member account."
  type        = string
  default     = "ebb-member"
  nullable    = false
}

variable "member_iam_path" {
  description = "IAM path of the role in each member account: iam_path of terraform/modules/member."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([A-Za-z0-9+=,.@_-]+/)*$", var.member_iam_path)) && length(var.member_iam_path) <= 512
    error_message = "member_iam_path must begin and end with a slash, such as /teams/ebb/, and have at most 512 characters."
  }
}

variable "member_permissions_boundary_name" {
  description = "Policy of each member account that limits the role of the StackSet: its name, with its path if it has one. Null for none."
  type        = string
  default     = null

  validation {
    condition     = var.member_permissions_boundary_name == null || can(regex("^[A-Za-z0-9+=,.@_-]+(/[A-Za-z0-9+=,.@_-]+)*$", var.member_permissions_boundary_name))
    error_message = "member_permissions_boundary_name must be the name of a policy, such as boundary or teams/boundary."
  }
}

variable "member_external_id" {
  description = "External id that the member roles require; null for none."
  type        = string
  default     = null
}

variable "member_organizational_unit_ids" {
  description = "Organizational units in whose accounts a StackSet creates the role of terraform/modules/member; the root, such as r-a1b2, for all accounts. Only in the management account, or in a delegated administrator for StackSets."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "member_stack_set_call_as" {
  description = "Account that manages the StackSet: SELF in the management account, otherwise DELEGATED_ADMIN."
  type        = string
  default     = "SELF"
  nullable    = false
}

variable "shards" {
  description = "Number of shards that divide the nodes, each with a queue and a function. Use one for every 100,000 nodes. Probes need the new queue_url to use more shards. Before you reduce the number, give them the shorter queue_url and wait until the removed queues are empty."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.shards >= 1 && var.shards <= 99 && floor(var.shards) == var.shards
    error_message = "shards must be a whole number from 1 to 99."
  }
}

variable "senders" {
  description = "Credentials that may send data of a node, by kind: ec2, eks_pod_identity, irsa, roles_anywhere. See \"Who can speak for a node\"."
  type = object({
    ec2 = optional(object({
      role_arns       = optional(list(string), [])
      organization_id = optional(string)
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
    error_message = "senders must contain at least one kind, such as { ec2 = {} }."
  }

  validation {
    condition = alltrue(flatten([
      for sender in values(var.senders) : [
        for role in try(sender.role_arns, []) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$", role))
      ]
    ]))
    error_message = "role_arns of senders must be ARNs of roles, such as arn:aws:iam::123456789012:role/probe."
  }

  validation {
    condition     = try(var.senders.ec2.organization_id, null) == null || can(regex("^o-[a-z0-9]{10,32}$", var.senders.ec2.organization_id))
    error_message = "organization_id of senders.ec2 must be the id of an organization, such as o-a1b2c3d4e5."
  }

  validation {
    condition = alltrue([
      for kind, sender in var.senders : alltrue([for values in values(sender) : length(values) > 0]) if kind != "ec2" && sender != null
    ])
    error_message = "Every kind of senders other than ec2 needs role_arns and its proof."
  }

  validation {
    condition = alltrue(concat(
      [for arn in try(var.senders.eks_pod_identity.cluster_arns, []) : can(regex("^arn:[a-z-]+:eks:[a-z0-9-]+:[0-9]{12}:cluster/[A-Za-z0-9_-]+$", arn))],
      [for arn in try(var.senders.irsa.oidc_provider_arns, []) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/[^*?$]+$", arn))],
      [for name in try(var.senders.roles_anywhere.common_names, []) : can(regex("^[^$?]*[^$?*. ][^$?]*$", name))],
    ))
    error_message = "senders: cluster_arns and oidc_provider_arns must be ARNs; common_names must be names or patterns such as *.cluster.example.org, but not * alone."
  }
}

variable "api_authorization" {
  description = "Authorization of the API: AWS_IAM (signed requests), JWT (tokens of api_jwt_issuer) or NONE (only for simulators)."
  type        = string
  default     = "AWS_IAM"
  nullable    = false

  validation {
    condition     = contains(["AWS_IAM", "JWT", "NONE"], var.api_authorization)
    error_message = "api_authorization must be AWS_IAM, JWT or NONE."
  }
}

variable "api_jwt_issuer" {
  description = "Issuer of accepted tokens: the URL in their `iss`. Applies to api_authorization JWT."
  type        = string
  default     = null

  validation {
    condition     = var.api_jwt_issuer == null || can(regex("^https://[^\\s]+$", var.api_jwt_issuer))
    error_message = "api_jwt_issuer must be an https URL."
  }
}

variable "api_jwt_audience" {
  description = "Accepted audiences of tokens: values of `aud` or `client_id`."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for audience in var.api_jwt_audience : length(audience) > 0])
    error_message = "api_jwt_audience must not contain an empty text."
  }
}

variable "api_jwt_read_scopes" {
  description = "Scopes that permit reading; one of them is enough. With [] every token of the audience permits reading."
  type        = list(string)
  default     = ["ebb.read"]
  nullable    = false

  validation {
    condition     = alltrue([for scope in var.api_jwt_read_scopes : can(regex("^[!#-\\[\\]-~]+$", scope))])
    error_message = "api_jwt_read_scopes must contain OAuth 2.0 scopes without space, quote or backslash."
  }
}

variable "api_jwt_write_scopes" {
  description = "Scopes that permit reading and decisions about findings; one of them is enough."
  type        = list(string)
  default     = ["ebb.write"]
  nullable    = false

  validation {
    condition     = alltrue([for scope in var.api_jwt_write_scopes : can(regex("^[!#-\\[\\]-~]+$", scope))])
    error_message = "api_jwt_write_scopes must contain OAuth 2.0 scopes without space, quote or backslash."
  }
}

variable "api_rate_limit" {
  description = "Average requests per second of all callers; further requests get status 429."
  type        = number
  default     = 20
  nullable    = false

  validation {
    condition     = var.api_rate_limit >= 1 && var.api_rate_limit <= 10000
    error_message = "api_rate_limit must be between 1 and 10000."
  }
}

variable "api_burst_limit" {
  description = "Requests above the rate that the API accepts at once."
  type        = number
  default     = 40
  nullable    = false

  validation {
    condition     = var.api_burst_limit >= 1 && var.api_burst_limit <= 5000 && floor(var.api_burst_limit) == var.api_burst_limit
    error_message = "api_burst_limit must be a whole number between 1 and 5000."
  }
}

variable "policy_toml" {
  description = "Content of config/policy.toml with thresholds; null for the defaults."
  type        = string
  default     = null
}

variable "rules_toml" {
  description = "Content of config/rules.toml, which defines background processes; null for the defaults."
  type        = string
  default     = null
}

variable "slack_webhook_url" {
  description = "Slack webhook for notifications, stored in Secrets Manager; null for none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.slack_webhook_url == null || can(regex("^https?://", var.slack_webhook_url))
    error_message = "slack_webhook_url must be a URL."
  }
}

variable "slack_channels" {
  description = "Further Slack channels by name: webhooks, or channel ids with slack_bot_token. Routes of the policy use these names."
  type        = map(string)
  default     = {}
  nullable    = false
  sensitive   = true
}

variable "slack_bot_token" {
  description = "Bot token instead of slack_webhook_url. Scopes: chat:write and channels:history, and groups:history in private channels. With a bot, updates are posted in threads, and no message is posted twice."
  type        = string
  default     = null
  sensitive   = true
}

variable "slack_channel_id" {
  description = "Channel of the bot; required with slack_bot_token."
  type        = string
  default     = null
}

variable "slack_signing_secret" {
  description = "Signing secret of the Slack app of slack_bot_token. With it, findings in Slack have buttons, and the API accepts their signed actions at POST /v1/slack/actions. Null for none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.slack_signing_secret == null || can(regex("^[A-Za-z0-9]{16,128}$", var.slack_signing_secret))
    error_message = "slack_signing_secret must be 16 to 128 letters and digits, as the page of the app shows it."
  }
}

variable "webhooks" {
  description = "URL of each webhook of the policy, by its name, with the header `Authorization` and the key that its template needs. Stored in Secrets Manager."
  type = map(object({
    url           = string
    authorization = optional(string)
    key           = optional(string)
  }))
  default   = {}
  nullable  = false
  sensitive = true

  validation {
    condition     = alltrue([for hook in values(var.webhooks) : can(regex("^https?://", hook.url))])
    error_message = "webhooks must have a URL each."
  }
}

variable "pages_secret" {
  description = "Secret that signs access of browsers to the web pages: 32 or more letters and digits, such as of `openssl rand -hex 32`. With it, `ebb pages` makes links for callers of the API. Null for no pages."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.pages_secret == null || can(regex("^[A-Za-z0-9]{32,256}$", var.pages_secret))
    error_message = "pages_secret must be 32 to 256 letters and digits."
  }
}

variable "pages_url" {
  description = "Address of web pages of findings, to which notifications link. By default, notifications have no links."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^(https?://[A-Za-z0-9.:/_~%\\[\\]-]+)?$", var.pages_url))
    error_message = "pages_url must be an http or https URL without user name, query and fragment, or empty."
  }
}

variable "events_webhook_url" {
  description = "URL that receives each change of a finding as a signed CloudEvent; requires events_webhook_key. Null for none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.events_webhook_url == null || can(regex("^https?://", var.events_webhook_url))
    error_message = "events_webhook_url must be a URL."
  }
}

variable "events_webhook_key" {
  description = "Signing key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. During a rotation, two keys separated by a space."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.events_webhook_key == null || can(regex("^whsec_[A-Za-z0-9+/=]+( whsec_[A-Za-z0-9+/=]+)*$", var.events_webhook_key))
    error_message = "events_webhook_key must be whsec_ and base64, such as whsec_$(openssl rand -base64 32)."
  }
}

variable "topic_arn" {
  description = "SNS topic that receives changes of findings as CloudEvents; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.topic_arn == null || can(regex("^arn:[^:]+:sns:[^:]+:[0-9]+:[A-Za-z0-9_.-]+$", var.topic_arn))
    error_message = "topic_arn must be the ARN of an SNS topic."
  }
}

variable "email_contact_list" {
  description = "Contact list of SES for the unsubscribe link of emails. Null adds a link that sends an email to the sender."
  type        = string
  default     = null
}

variable "email_from" {
  description = "Sender of notifications by email, an identity that SES has verified; null for none."
  type        = string
  default     = null

  validation {
    condition     = var.email_from == null || can(regex("^[^@\\s]+@[^@\\s]+$", var.email_from))
    error_message = "email_from must be one plain address, such as ebb@example.org."
  }
}

variable "email_to" {
  description = "Recipients of notifications by email."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for address in var.email_to : can(regex("^[^@,\\s]+@[^@,\\s]+$", address))])
    error_message = "email_to must contain plain addresses, such as team@example.org."
  }
}

variable "alarms" {
  description = "Whether to create alarms about Ebb itself: 4, plus 4 for each shard, 0.10 USD a month each."
  type        = bool
  default     = true
  nullable    = false
}

variable "alarm_topic_arn" {
  description = "SNS topic that receives alarms and messages of the budget; null creates the topic NAME-alarms."
  type        = string
  default     = null

  validation {
    condition     = var.alarm_topic_arn == null || can(regex("^arn:[^:]+:sns:[^:]+:[0-9]{12}:[A-Za-z0-9_-]+$", var.alarm_topic_arn))
    error_message = "alarm_topic_arn must be the ARN of a standard SNS topic."
  }
}

variable "alarm_silent_probes" {
  description = "Number of silent probes of running instances from which the alarm silent-probes is raised. A fleet with many short outages of its network needs more."
  type        = number
  default     = 5
  nullable    = false

  validation {
    condition     = var.alarm_silent_probes >= 1 && floor(var.alarm_silent_probes) == var.alarm_silent_probes
    error_message = "alarm_silent_probes must be a whole number, at least 1."
  }
}

variable "alarm_emails" {
  description = "Addresses that subscribe to the topic NAME-alarms. Each receives a link that confirms the subscription."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for address in var.alarm_emails : can(regex("^[^@,\\s]+@[^@,\\s]+$", address))])
    error_message = "alarm_emails must contain plain addresses, such as team@example.org."
  }
}

variable "dashboard" {
  description = "Whether to create a CloudWatch dashboard; it costs 3 USD a month if the account has three others."
  type        = bool
  default     = false
  nullable    = false
}

variable "monthly_budget_usd" {
  description = "Budget for Ebb itself in USD a month, by the tag application; null for none. Activate the tag as a cost allocation tag."
  type        = number
  default     = null

  validation {
    condition     = var.monthly_budget_usd == null || try(var.monthly_budget_usd > 0, false)
    error_message = "monthly_budget_usd must be more than 0."
  }
}

variable "cost_export_bucket" {
  description = "Bucket with exports of the bill, which `export` in `[costs]` of the policy names. The sweep may then read it. Null for none."
  type        = string
  default     = null

  validation {
    condition     = var.cost_export_bucket == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.cost_export_bucket))
    error_message = "cost_export_bucket must be the name of a bucket."
  }
}

variable "kms_key_arns" {
  description = "Customer managed keys that encrypt topic_arn or cost_export_bucket. The sweep may use them."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.kms_key_arns : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", arn))])
    error_message = "kms_key_arns must be ARNs of keys, not of aliases, such as arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab."
  }
}

variable "athena" {
  description = "Whether to create the tables of the lake in Glue and a workgroup of Athena. Athena costs 5 USD for each TB that queries scan."
  type        = bool
  default     = false
  nullable    = false
}

variable "athena_scan_limit_bytes" {
  description = "Bytes that a query in the workgroup may scan before Athena cancels it; the default of 20 GB costs 0.10 USD."
  type        = number
  default     = 20000000000
  nullable    = false

  validation {
    condition     = var.athena_scan_limit_bytes >= 10485760 && floor(var.athena_scan_limit_bytes) == var.athena_scan_limit_bytes
    error_message = "athena_scan_limit_bytes must be a whole number, at least 10485760."
  }
}

variable "extra_environment" {
  description = "Additional environment variables of both functions, such as `AWS_ENDPOINT_URL_<SERVICE>`, `EBB_SPOT_ADVISOR_URL` or the log level."
  type        = map(string)
  default     = {}
  nullable    = false
}
