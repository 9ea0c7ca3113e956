# Credentials that may send for a node. The session name of the credentials is the name of the
# node. Therefore the policies of the queues and of the bucket require a proof of the source of
# the credentials. README.md, "Who can speak for a node", describes each proof.

locals {
  role_arns = { for kind, sender in var.senders : kind => sender.role_arns if sender != null }

  # A listed role of another account is used by the instances of that account.
  ec2_accounts = distinct(concat([local.account], [
    for role in try(local.role_arns.ec2, []) : split(":", role)[4]
  ]))

  # With an organization, an instance of the account of its role. AWS inserts the account of the caller,
  # and the policies of queues and bucket let in other accounts of the organization only.
  organization_id = try(var.senders.ec2.organization_id, null)
  own_instance    = "arn:${local.partition}:ec2:*:$${aws:PrincipalAccount}:instance/*"

  # A key that is missing from a request does not match the first operator, and
  # matches the second. So the first is for Allow and the second for Deny.
  #
  # Sources: "AWS global condition context keys" (IAM); "Identity-based policies for
  # Amazon EC2" (ec2:SourceInstanceARN is a global key); "Grant Pods access to AWS
  # resources based on tags" (EKS); "The IAM Roles Anywhere trust model".
  attestations = {
    for kind, attestation in {
      ec2 = {
        matches = "ArnLike"
        differs = "ArnNotLike"
        key     = "ec2:SourceInstanceARN"
        values = local.organization_id != null ? [local.own_instance] : [
          for account in local.ec2_accounts : "arn:${local.partition}:ec2:*:${account}:instance/*"
        ]
      }
      eks_pod_identity = {
        matches = "StringEquals"
        differs = "StringNotEquals"
        key     = "aws:PrincipalTag/eks-cluster-arn"
        values  = try(var.senders.eks_pod_identity.cluster_arns, [])
      }
      irsa = {
        matches = "StringEquals"
        differs = "StringNotEquals"
        key     = "aws:FederatedProvider"
        values  = try(var.senders.irsa.oidc_provider_arns, [])
      }
      roles_anywhere = {
        matches = "StringLike"
        differs = "StringNotLike"
        key     = "aws:PrincipalTag/x509Subject/CN"
        values  = try(var.senders.roles_anywhere.common_names, [])
      }
    } : kind => attestation if var.senders[kind] != null
  }

  # A user who may assume a role can set the tags of the session, so these kinds are accepted only
  # from the listed roles. An instance needs no list.
  tagged_role_arns = distinct(flatten([for kind, roles in local.role_arns : roles if kind != "ec2"]))
  listed_role_arns = distinct(flatten(values(local.role_arns)))
  sender_role_arns = distinct(concat([local.node_role_arn], local.listed_role_arns))

  # In this account, the policy of the role is sufficient. A role of another account also needs the
  # resource policy.
  foreign_role_arns = [for role in local.listed_role_arns : role if split(":", role)[4] != local.account]
  foreign_accounts  = distinct([for role in local.foreign_role_arns : split(":", role)[4]])

  # Senders of other accounts: listed roles, and instances of the organization.
  foreign_senders = merge(
    length(local.foreign_role_arns) == 0 ? {} : {
      RolesOfOtherAccounts = {
        principals = [for account in local.foreign_accounts : "arn:${local.partition}:iam::${account}:root"]
        test       = "ArnEquals"
        key        = "aws:PrincipalArn"
        values     = local.foreign_role_arns
      }
    },
    local.organization_id == null ? {} : {
      InstancesOfOrganization = {
        principals = ["*"]
        test       = "StringEquals"
        key        = "aws:PrincipalOrgID"
        values     = [local.organization_id]
      }
    },
  )

  # SQS accepts 10 conditions in a policy: TLS, the refusals below, and one for each entry above.
  queue_conditions = 1 + length(flatten(values(local.refusals))) + length(local.foreign_senders)

  # Conditions of one Deny statement each; all of them must match.
  refusals = merge(
    {
      DenyUnattested = [
        for attestation in values(local.attestations) :
        { test = attestation.differs, key = attestation.key, values = attestation.values }
      ]
    },
    length(local.tagged_role_arns) == 0 ? {} : {
      DenyUnlistedRoles = concat(
        [{ test = "ArnNotEquals", key = "aws:PrincipalArn", values = local.tagged_role_arns }],
        [
          for kind, attestation in local.attestations :
          { test = attestation.differs, key = attestation.key, values = attestation.values } if kind == "ec2"
        ],
      )
      DenyNamesOfInstances = [
        { test = "StringLike", key = "aws:userid", values = ["*:i-*"] },
        { test = "Null", key = "ec2:SourceInstanceARN", values = ["true"] },
      ]
    },
  )
}

# Permissions of each kind of sender. `aws_iam_policy.node` is for EC2; attach the others to your
# roles of the kind.
data "aws_iam_policy_document" "sender" {
  for_each = local.attestations

  statement {
    sid       = "SendHeartbeats"
    actions   = ["sqs:SendMessage"]
    resources = local.queue_arns

    condition {
      test     = each.value.matches
      variable = each.value.key
      values   = each.value.values
    }
  }

  # AWS inserts the caller (AROA...:i-...), so no node can write under the name of another node.
  # The sweep relies on this.
  statement {
    sid       = "PutStepsUnderOwnName"
    actions   = ["s3:PutObject"]
    resources = [local.own_objects_arn]

    condition {
      test     = each.value.matches
      variable = each.value.key
      values   = each.value.values
    }

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }

  statement {
    sid       = "ReadRules"
    actions   = ["s3:GetObject"]
    resources = local.node_objects

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceAccount"
      values   = [local.account]
    }
  }
}

resource "aws_iam_policy" "sender" {
  for_each = { for kind, document in data.aws_iam_policy_document.sender : kind => document if kind != "ec2" }

  name        = "${var.name}-sender-${replace(each.key, "_", "-")}"
  path        = var.iam_path
  description = "Ebb probe: sends what its own node did, and reads its rules."
  policy      = each.value.json
  tags        = local.tags
}
