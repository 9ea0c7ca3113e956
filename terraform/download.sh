#!/bin/sh
# Downloads files of a release into a folder and verifies them. Terraform runs it; see packages.tf.
# Environment: URL and FOLDER without a slash at the end; FILES with a line "SHA256 NAME" for each file.
set -eu

fail() {
  printf 'failed to download %s: %s\n' "$1" "$2" >&2
  exit 1
}

# macOS has no sha256sum.
if command -v sha256sum >/dev/null; then
  checksum() { sha256sum "$1"; }
else
  checksum() { shasum -a 256 "$1"; }
fi

mkdir -p "$FOLDER"
printf '%s\n' "$FILES" | while read -r wanted name; do
  # Under another name until it is verified.
  part=$FOLDER/$name.part
  curl --fail --silent --show-error --location --proto-redir =https --retry 3 --output "$part" "$URL/$name" ||
    fail "$URL/$name" 'no answer with the file; see the line above'
  found=$(checksum "$part" | cut -d' ' -f1)
  if [ "$found" != "$wanted" ]; then
    rm -f "$part"
    fail "$URL/$name" "its SHA-256 is $found, and sha256 of the release has $wanted"
  fi
  mv "$part" "$FOLDER/$name"
  echo "$name is verified"
done
