# Installs the probe on machines that exist already, and renders user data for those that do not. Apply
# the module in each account and region that has nodes. It gives nodes no permission: attach
# node_policy_arn or sender_policies of the deployment to their roles.

locals {
  script = templatefile("${path.module}/install.sh.tftpl", var.package)

  cloud_init = join("\n", [
    "#cloud-config",
    yamlencode({
      write_files = [{ path = "/run/ebb-install", permissions = "0700", content = local.script }]
      runcmd      = [["sh", "/run/ebb-install"]]
    }),
  ])

  # Launch templates of AWS Batch require user data in MIME parts.
  user_data = join("\n", [
    "MIME-Version: 1.0",
    "Content-Type: multipart/mixed; boundary=\"ebb\"",
    "",
    "--ebb",
    "Content-Type: text/cloud-config; charset=\"us-ascii\"",
    "",
    local.cloud_init,
    "--ebb--",
    "",
  ])

  document_count = length(var.targets) == 0 ? 0 : 1
}

# The document has no parameter, so who may run it can install this package and nothing else.
resource "aws_ssm_document" "install" {
  count = local.document_count

  name            = "${var.name}-install-probe"
  document_type   = "Command"
  document_format = "JSON"
  target_type     = "/AWS::EC2::Instance"
  tags            = var.tags

  content = jsonencode({
    schemaVersion = "2.2"
    description   = "Installs the Ebb probe, or upgrades it."
    mainSteps = [{
      action       = "aws:runShellScript"
      name         = "install"
      precondition = { StringEquals = ["platformType", "Linux"] }
      inputs = {
        runCommand     = split("\n", trimspace(local.script))
        timeoutSeconds = "600"
      }
    }]
  })
}

# State Manager runs the document on the nodes of the targets, on later ones when they start, and on all
# after the document has changed.
resource "aws_ssm_association" "install" {
  count = local.document_count

  association_name    = "${var.name}-install-probe"
  name                = aws_ssm_document.install[0].name
  document_version    = aws_ssm_document.install[0].latest_version
  schedule_expression = var.schedule_expression
  max_concurrency     = var.max_concurrency
  max_errors          = var.max_errors
  compliance_severity = "LOW"
  tags                = var.tags

  dynamic "targets" {
    for_each = var.targets

    content {
      key    = targets.key
      values = targets.value
    }
  }
}
