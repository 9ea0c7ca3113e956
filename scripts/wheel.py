#!/usr/bin/env python3
"""Packs a static program as a wheel, so that `pipx install` puts it on the PATH.

    scripts/wheel.py PROGRAM VERSION x86_64|aarch64 OUT

A wheel is a zip file with checksums of its members. Source: PyPA, "Binary distribution format"; the
tag is that of the oldest glibc that pip knows, because a static program needs none. maturin would
compile again instead of packing a program.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

NAME = "ebb_cli"


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    program, version, arch, out = sys.argv[1:]
    tag = f"py3-none-manylinux2014_{arch}"
    info = f"{NAME}-{version}.dist-info"
    root = Path(__file__).resolve().parent.parent
    members = {
        f"{NAME}-{version}.data/scripts/ebb": Path(program).read_bytes(),
        f"{info}/METADATA": metadata(version, root).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: ebb\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/licenses/LICENSE": (root / "LICENSE").read_bytes(),
    }
    record = "".join(f"{name},sha256={checksum(content)},{len(content)}\n" for name, content in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(Path(out, f"{NAME}-{version}-{tag}.whl"), "w") as wheel:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    return 0


def metadata(version, root):
    summary = "Reports idle nodes, stuck AWS Batch workers and overprovisioned steps of pipelines"
    return (f"Metadata-Version: 2.4\nName: ebb-cli\nVersion: {version}\nSummary: {summary}\n"
            f"License-Expression: Apache-2.0\nLicense-File: LICENSE\nDescription-Content-Type: text/markdown\n\n"
            f"{(root / 'README.md').read_text()}")


def checksum(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    sys.exit(main())
