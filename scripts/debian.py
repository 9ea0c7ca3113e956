"""Debian's packages, unpacked under EBB_CACHE: this machine's own stay as they are.

    python3 scripts/debian.py [PACKAGE...]    print the archive of a new Debian with these packages
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CACHE = Path(os.environ.get("EBB_CACHE", Path.home() / ".cache/ebb")) / "kernels"
BASE = "bookworm"
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# For machines whose apt knows no Debian, such as those with Ubuntu. The keys verify what comes from it.
PUBLIC_MIRROR = "http://deb.debian.org/debian"


class Missing(Exception):
    """What cannot be had, and what mends it."""


def say(text):
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def run(*command, **options):
    try:
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)
    except FileNotFoundError as problem:
        raise Missing(f"{problem.filename} is not here; this needs Debian or Ubuntu") from None
    if done.returncode:
        raise Missing(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def mirror(etc=Path("/etc/apt")):
    """Where this machine's own apt finds Debian, or else the public mirror."""
    named = os.environ.get("EBB_DEBIAN_MIRROR")
    if named:
        return named
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        text = file.read_text() if file.is_file() else ""
        found = re.search(r"^\s*(?:deb\s.*?|URIs:\s*)(https?://\S+/debian)/?(?=\s|$)", text, re.M)
        if found:
            return found[1]
    return PUBLIC_MIRROR


def apt(command, *words, arch="amd64", **options):
    """apt in its own folder, as on a machine without any package."""
    folder = CACHE / "apt"
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": "/dev/null",
        "Dir::Cache": folder,
        "APT::Architecture": arch,
        "APT::Architectures": "amd64,arm64",
        "APT::Sandbox::User": "root",
        "APT::Update::Post-Invoke-Success": "",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    set_all = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    return run("apt-get", "-q", *set_all, command, *words, **options)


def update(suites):
    """Package lists of these suites and the base, once a day."""
    folder = CACHE / "apt"
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "archives/partial").mkdir(parents=True, exist_ok=True)
    if not KEYS.exists():
        raise Missing(f"{KEYS} is not there; apt-get install debian-archive-keyring")
    lines = [f"deb [signed-by={KEYS}] {mirror()} {suite} main" for suite in sorted({BASE, *suites})]
    lines.append(f"deb [signed-by={KEYS}] {mirror()}-security {BASE}-security main")
    sources = "\n".join(lines) + "\n"
    file = folder / "sources.list"
    fresh = file.exists() and file.read_text() == sources
    if fresh and time.time() - file.stat().st_mtime < 86400:
        return
    say("package lists of Debian: 70 MB")
    pins = [f"Package: *\nPin: release n={suite}\nPin-Priority: 990\n"
            for suite in (BASE, f"{BASE}-security")]
    (folder / "base").write_text("\n".join(pins))
    file.write_text(sources)
    os.utime(file, (0, 0))
    apt("update")
    os.utime(file)


def fetch(suite, arch, packages, wanted=""):
    """The files of these packages and all that they need, as far as `wanted` matches."""
    # The base with its updates; of any other suite, what it has itself.
    prefer = ["-o", f"Dir::Etc::Preferences={CACHE}/apt/base"] if suite == BASE else ["-t", suite]
    plan = apt("install", "-s", "--no-install-recommends", *prefer, *packages, arch=arch)
    found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) .*\[(\w+)\]\)", plan, re.M)
    found = [(name.split(":")[0], version, of) for name, version, of in found if re.match(wanted, name)]
    if not found:
        raise Missing(f"Debian's {suite} has no {' '.join(packages)} for {arch}")
    archives = CACHE / "apt/archives"
    files = {archives / f"{name}_{version.replace(':', '%3a')}_{of}.deb": (name, version, of)
             for name, version, of in found}
    lacking = [f"{name}{'' if of == 'all' else ':' + of}={version}"
               for file, (name, version, of) in files.items() if not file.exists()]
    if lacking:
        say(f"{len(lacking)} packages for {' '.join(packages)}")
        apt("download", *lacking, arch=arch, cwd=archives)
    return list(files)


def unpack(name, files):
    """A folder with the contents of these packages, made anew when they change."""
    folder = CACHE / name
    stamp = hashlib.sha256("\n".join(sorted(file.name for file in files)).encode()).hexdigest()
    mark = CACHE / f"{name}.stamp"
    if folder.exists() and mark.exists() and mark.read_text() == stamp:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for file in files:
        run("dpkg-deb", "-x", file, folder)
    mark.write_text(stamp)
    return folder


def root_archive(*packages):
    """An archive of a Debian with its essential packages and these, made once. Needs root."""
    archive = CACHE.parent / f"{'-'.join(['debian-root', *packages])}.tar"
    if archive.exists():
        return archive
    say(f"debootstrap of {' with '.join(filter(None, [f'Debian {BASE}', ', '.join(packages)]))}")
    include = [f"--include={','.join(packages)}"] if packages else []
    part = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        # Otherwise only root may read `/` of this Debian.
        os.chmod(folder, 0o755)
        run("debootstrap", "--variant=minbase", *include, BASE, folder, mirror())
        run("tar", "-C", folder, "-cf", part, ".")
    part.rename(archive)
    return archive


def of_tools(tools, program, *words):
    """The command line of an unpacked program, with its own libraries."""
    loader = tools / "lib64/ld-linux-x86-64.so.2"
    libraries = [tools / "usr/lib/x86_64-linux-gnu", tools / "lib/x86_64-linux-gnu"]
    return [loader, "--library-path", ":".join(map(str, libraries)), tools / program, *words]


if __name__ == "__main__":
    try:
        print(root_archive(*sys.argv[1:]))
    except Missing as problem:
        say(problem)
        sys.exit(1)
