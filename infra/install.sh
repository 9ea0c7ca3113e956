#!/bin/sh
# Installs `ebb`, or the probe of Ebb, from a release. It prints each step before it does it.
# Usage: sh install.sh --help
set -eu

# The key of minisign that signed the release. `make release` writes it here; empty: the release is not signed.
public_key=''

say() { printf 'install: %s\n' "$1"; }
fail() {
  printf 'install: %s\n' "$1" >&2
  exit 1
}
usage() {
  cat <<'END'
Install `ebb`, or the probe of Ebb, from a release

  curl -fsSL URL/install.sh | sh -s -- --from URL              ebb into ~/.local/bin, without root
  sh install.sh --from FOLDER                                  offline
  sh install.sh --from s3://BUCKET/PATH probe --queue-url URL --bucket NAME --region REGION
  sh install.sh --from URL probe --place file:///srv/ebb       as root
  sh install.sh --uninstall [probe]

Options:
  --from URL|FOLDER|s3://BUCKET/PATH  Folder of a release [default: the variable EBB_RELEASE]
  --to DIR                            Folder of ebb [default: ~/.local/bin, for root /usr/local/bin]
  --uninstall                         Remove ebb, or the probe
  -h, --help                          Print help

Arguments after `probe` are those of the script `install` in the archive of the probe. Downloads use the variables
https_proxy and no_proxy, also in upper case.
END
}
refuse() {
  usage >&2
  fail "unknown arguments: $1"
}
has() { command -v "$1" >/dev/null 2>&1; }

# Everything is in functions: a download that ends early runs nothing.
main() {
  from=${EBB_RELEASE:-} to='' program=ebb uninstall=no
  while [ $# -gt 0 ]; do
    case $1 in
      --from | --to)
        [ $# -ge 2 ] || refuse "$1 without a value"
        case $1 in --from) from=$2 ;; *) to=$2 ;; esac
        shift 2
        ;;
      --uninstall) uninstall=yes && shift ;;
      probe)
        program=ebb-probe
        shift
        break
        ;;
      -h | --help)
        usage
        exit
        ;;
      *) refuse "$1" ;;
    esac
  done
  if [ -z "$to" ]; then
    if [ "$(id -u)" = 0 ]; then to=/usr/local/bin; else to=$HOME/.local/bin; fi
  fi
  if [ $uninstall = yes ]; then
    remove
    exit
  fi
  [ -n "$from" ] || fail 'name the release: --from URL, --from FOLDER or --from s3://BUCKET/PATH'
  from=${from%/}
  [ "$(uname -s)" = Linux ] || fail "Ebb runs on Linux; this is $(uname -s)"
  case $(uname -m) in
    x86_64 | aarch64) arch=$(uname -m) ;;
    *) fail "there is no program for $(uname -m); only x86_64 and aarch64" ;;
  esac
  [ $program = ebb ] || check_probe
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  fetch_release
  if [ $program = ebb ]; then install_ebb; else install_probe "$@"; fi
}

# Whether a URL with http is on this machine. Only digits may follow the colon, because `localhost:1@HOST` is HOST.
is_this_machine() {
  address=${1#http://}
  case ${address%%/*} in
    localhost | 127.0.0.1) ;;
    localhost:*[!0-9]* | 127.0.0.1:*[!0-9]*) return 1 ;;
    localhost:?* | 127.0.0.1:?*) ;;
    *) return 1 ;;
  esac
}

# wget has no option that limits redirects to https, so a file that came by http is removed. It reads the variables
# of a proxy in lower case only; curl reads both.
fetch_with_wget() {
  https_proxy=${https_proxy:-${HTTPS_PROXY:-}} no_proxy=${no_proxy:-${NO_PROXY:-}} wget --quiet --server-response --output-document="$2" "$1" 2>"$folder/answers" || {
    cat "$folder/answers" >&2
    return 1
  }
  if grep -qi '^[[:space:]]*location:[[:space:]]*http:' "$folder/answers"; then
    rm -f "$2"
    say "$1 redirects to http, which is not safe" >&2
    return 1
  fi
}

# One file of the release.
fetch() {
  case $from in
    s3://*)
      has aws || fail "failed to read $from: the AWS CLI is not installed"
      aws s3 cp --only-show-errors "$from/$1" "$folder/$1"
      ;;
    http://* | https://*)
      if [ "${from#https://}" = "$from" ]; then
        is_this_machine "$from" || fail "failed to use $from: http is not safe; use https"
        # A proxy would be another machine.
        no_proxy=localhost,127.0.0.1
        export no_proxy
      fi
      if has curl; then
        curl --fail --silent --show-error --location --proto-redir =https --output "$folder/$1" "$from/$1"
      elif has wget; then
        fetch_with_wget "$from/$1" "$folder/$1"
      else
        fail 'neither curl nor wget is installed'
      fi
      ;;
    *) cp "$from/$1" "$folder/$1" ;;
  esac || fail "failed to fetch $1 from $from"
}

fetch_release() {
  say "fetches the checksums of the release from $from"
  fetch SHA256SUMS
  check_signature
  file=$(sed -n "s/^[0-9a-f]\{64\}  \($program-[0-9][A-Za-z0-9.+-]*-linux-$arch\.tar\.gz\)\$/\1/p" "$folder/SHA256SUMS" | head -n1)
  [ -n "$file" ] || fail "the release has no $program for $arch"
  say "fetches $file"
  fetch "$file"
  wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $file\$/\1/p" "$folder/SHA256SUMS" | head -n1)
  found=$(sha256sum "$folder/$file" | cut -d' ' -f1)
  [ "$wanted" = "$found" ] || fail "$file is not what the release contains (its checksum differs); nothing was installed"
  mkdir "$folder/unpacked"
  tar -xzf "$folder/$file" -C "$folder/unpacked"
}

check_signature() {
  if [ -z "$public_key" ]; then
    say 'this release is not signed; only checksums are verified'
    return
  fi
  fetch SHA256SUMS.minisig
  if has minisign; then
    minisign -Vqm "$folder/SHA256SUMS" -P "$public_key" || fail 'the signature of the release is not valid; nothing was installed'
  elif openssl pkeyutl -help 2>&1 | grep -q rawin; then
    check_with_openssl || fail 'the signature of the release is not valid; nothing was installed'
  else
    fail 'failed to verify the signature: install minisign, or openssl 3'
  fi
  say 'the signature is valid'
}

# A key of minisign is 2 bytes of algorithm, 8 of an id and 32 of Ed25519; a signature has 64 at its end. With
# the algorithm `Ed`, the file itself is signed, and not its BLAKE2b hash, which openssl cannot verify.
check_with_openssl() {
  printf '\060\052\060\005\006\003\053\145\160\003\041\000' >"$folder/key"
  printf '%s' "$public_key" | base64 -d | tail -c 32 >>"$folder/key"
  sed -n 2p "$folder/SHA256SUMS.minisig" | base64 -d >"$folder/signature"
  [ "$(head -c 2 "$folder/signature")" = Ed ] || return 1
  tail -c 64 "$folder/signature" >"$folder/signed"
  openssl pkeyutl -verify -pubin -keyform DER -inkey "$folder/key" -rawin -in "$folder/SHA256SUMS" -sigfile "$folder/signed" >/dev/null 2>&1
}

install_ebb() {
  say "installs ebb into $to"
  mkdir -p "$to"
  # Renamed, because a running program cannot be overwritten.
  cp "$folder"/unpacked/ebb-*/ebb "$to/.ebb.new"
  chmod 0755 "$to/.ebb.new"
  if ! "$to/.ebb.new" --version >/dev/null; then
    rm -f "$to/.ebb.new"
    fail 'the program does not run on this machine'
  fi
  mv "$to/.ebb.new" "$to/ebb"
  "$to/ebb" --version
  case :$PATH: in
    *":$to:"*) ;;
    *) say "add $to to your PATH" ;;
  esac
  say 'try it: ebb scan --demo'
}

check_probe() {
  [ "$(id -u)" = 0 ] || fail 'the probe is a system service; run this as root'
  has systemctl || fail 'the probe runs under systemd, which is not here; docs/src/kubernetes.md shows other ways'
  release=$(uname -r)
  major=${release%%.*} minor=${release#*.}
  minor=${minor%%[!0-9]*}
  if [ "$major" -lt 5 ] || { [ "$major" -eq 5 ] && [ "$minor" -lt 10 ]; }; then
    say "Linux $release is older than 5.10: the probe will sample /proc, and miss short processes"
  elif [ ! -e /sys/kernel/btf/vmlinux ]; then
    say 'this kernel has no type information (/sys/kernel/btf/vmlinux): the probe will sample /proc, and miss short processes'
  fi
}

install_probe() {
  say 'installs /usr/local/bin/ebb-probe and its service, and starts it'
  # By its shell, because some machines run no program in /tmp.
  (cd "$folder/unpacked" && sh ./install "$@")
}

remove() {
  if [ $program = ebb ]; then
    [ -e "$to/ebb" ] || fail "there is no $to/ebb; name its folder with --to"
    say "removes $to/ebb"
    rm -f "$to/ebb"
    return
  fi
  [ "$(id -u)" = 0 ] || fail 'run this as root'
  [ -e /usr/local/bin/ebb-probe ] || [ -e /etc/systemd/system/ebb-probe.service ] ||
    fail 'there is no probe in /usr/local/bin; apt or dnf remove one that they installed'
  say 'stops the probe and removes its program, service and records that wait to be sent; /etc/ebb stays'
  if has systemctl; then
    systemctl disable --now ebb-probe-update.timer ebb-probe.service >/dev/null 2>&1 || true
  fi
  rm -rf /etc/systemd/system/ebb-probe.service /etc/systemd/system/ebb-probe.service.d \
    /etc/systemd/system/ebb-probe-update.service /etc/systemd/system/ebb-probe-update.timer \
    /usr/local/bin/ebb-probe /usr/local/bin/ebb-probe.previous /usr/local/bin/ebb-probe.new /usr/local/bin/ebb-gpu \
    /var/lib/private/ebb /var/lib/ebb-update
  rm -f /usr/local/share/man/man1/ebb-probe*.1
  [ ! -L /var/lib/ebb ] || rm -f /var/lib/ebb
  if has systemctl; then
    systemctl daemon-reload || true
  fi
}

main "$@"
