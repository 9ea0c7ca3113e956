#!/usr/bin/env python3
"""Compilers for arm64 on x86-64, from Debian's packages, unpacked under EBB_CACHE.

    eval "$(scripts/cross.py)"    sets the variables of cargo
"""

import shlex
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from debian import BASE, CACHE, Missing, fetch, of_tools, unpack, update

CROSS = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "rustc-web"]


LIBRARIES = Path("usr/aarch64-linux-gnu/lib")


def relocate(libraries):
    """Has the linker look for libraries in its folders: its scripts name those of an installed package."""
    for script in libraries.glob("*.so"):
        if script.read_bytes().startswith(b"/* GNU ld script"):
            script.write_text(script.read_text().replace(f"/{LIBRARIES}/", ""))


def cross(environment):
    """What compiles for arm64: rustup's target, or else Debian's compiler, unpacked."""
    files = fetch(BASE, "amd64", CROSS)
    files += fetch(BASE, "arm64", ["libstd-rust-web-dev"], "libstd-rust-web-dev$")
    folder = unpack("cross", files)
    relocate(folder / LIBRARIES)
    binaries = CACHE / "cross-bin"
    binaries.mkdir(exist_ok=True)
    of_gcc = f" -B{binaries}"
    for program, name, more in [("rustc", "rustc", f" --sysroot {folder}/usr"),
                                ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-gcc", of_gcc),
                                ("aarch64-linux-gnu-ar", "aarch64-linux-gnu-ar", ""),
                                # By these names the compiler looks for them.
                                ("aarch64-linux-gnu-as", "as", ""),
                                ("aarch64-linux-gnu-ld", "ld", "")]:
        found = next((f for f in sorted((folder / "usr/bin").glob(f"{program}*"))), None)
        if not found:
            raise Missing(f"no {program} came with {' '.join(CROSS)}")
        words = " ".join(map(str, of_tools(folder, found.resolve().relative_to(folder))))
        (binaries / name).write_text(f'#!/bin/sh\nexec {words}{more} "$@"\n')
        (binaries / name).chmod(0o755)
    linker = binaries / "aarch64-linux-gnu-gcc"
    environment["RUSTC"] = str(binaries / "rustc")
    environment["CC_aarch64_unknown_linux_gnu"] = str(linker)
    environment["AR_aarch64_unknown_linux_gnu"] = str(binaries / "aarch64-linux-gnu-ar")
    environment["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"] = str(linker)


def main():
    try:
        update([])
        environment = {}
        cross(environment)
    except Missing as problem:
        print(f"cross: {problem}", file=sys.stderr)
        return 1
    for name, value in environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
