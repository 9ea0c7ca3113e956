# Packages of the functions and of the probe: local files, or those of a release.

locals {
  uses_release = var.release != null

  # A release has ebb-sweeper-VERSION-aarch64.zip and ebb-sweeper-VERSION-x86_64.zip.
  architecture = {
    for function, package in { sweeper = var.sweeper_package, tune = var.tune_package } :
    function => coalesce(var.architecture, local.uses_release || endswith(coalesce(package, "-"), "-aarch64.zip") ? "arm64" : "x86_64")
  }

  release_version   = try(var.release.version, "")
  release_processor = local.architecture.sweeper == "arm64" ? "aarch64" : "x86_64"
  release_folder    = "${path.root}/.terraform/ebb-${local.release_version}"
  release_files = {
    sweeper = "ebb-sweeper-${local.release_version}-${local.release_processor}.zip"
    tune    = "ebb-tune-${local.release_version}-${local.release_processor}.zip"
    probe   = "ebb-probe-${local.release_version}-linux-${local.release_processor}.tar.gz"
  }

  # Path and SHA-256 of each package. A plan needs the checksums of a release, not its files. A function without a
  # package has a path here, so that only the precondition of the sweeper reports it.
  packages = {
    for name, path in { sweeper = var.sweeper_package, tune = var.tune_package, probe = var.probe_package } :
    name => local.uses_release ? "${local.release_folder}/${local.release_files[name]}" : coalesce(path, "no-package")
  }
  sha256 = {
    for name, path in local.packages :
    name => local.uses_release ? try(var.release.sha256[name], null) : try(filesha256(path), null)
  }

  # Lambda has the checksum in base64, and Terraform cannot convert it: 3 hexadecimal digits are 2 digits of base64.
  base64_digits = split("", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  sha256_base64 = {
    for name, sha256 in local.sha256 : name => sha256 == null ? null : join("", concat(
      flatten([
        for bits in [for digit in range(0, 63, 3) : parseint(substr(sha256, digit, 3), 16)] :
        [local.base64_digits[floor(bits / 64)], local.base64_digits[bits % 64]]
      ]),
      [local.base64_digits[4 * parseint(substr(sha256, 63, 1), 16)], "="],
    ))
  }

  has_probe = local.sha256.probe != null
}

# Downloads the packages on the machine that runs Terraform, and fails if a checksum differs. The functions and
# the package of the probe wait for it.
resource "terraform_data" "release" {
  count = local.uses_release ? 1 : 0

  # Everything that creates a function, or the object of the probe, again needs the files.
  triggers_replace = {
    url       = var.release.url
    processor = local.release_processor
    sha256    = { for name, sha256 in local.sha256 : local.release_files[name] => sha256 if sha256 != null }
    bucket    = local.bucket_name
    functions = concat(local.sweeper_names, [local.tune_name])
  }

  provisioner "local-exec" {
    command = "sh '${path.module}/download.sh'"

    environment = {
      URL    = trimsuffix(var.release.url, "/")
      FOLDER = local.release_folder
      FILES  = join("\n", [for name, sha256 in local.sha256 : "${sha256} ${local.release_files[name]}" if sha256 != null])
    }
  }
}
