"""Debian's kernels in qemu, emulated, so that they boot where virtual machines cannot.

    python3 scripts/emulated.py aarch64    print a program of qemu that runs programs of this architecture
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from debian import BASE, CACHE, Missing, fetch, of_tools, run, say, unpack, update

ROOT = Path(__file__).resolve().parent.parent

TOOLS = ["busybox-static", "e2fsprogs", "ipxe-qemu", "qemu-system-arm", "qemu-system-data",
         "qemu-system-x86", "seabios"]
MODULES = re.compile(
    r"/(virtio|virtio_ring|virtio_pci|virtio_pci_\w+|virtio_blk|virtio_mmio|ext4|jbd2|mbcache"
    r"|crc16|crc32c\w*|libcrc32c|crc32c-intel|veth|fuse)\.ko(\.xz|\.zst)?$")
MACHINES = {
    "amd64": ("x86_64", "x86_64-unknown-linux-gnu", "ttyS0",
              ["-machine", "q35", "-cpu", "max"]),
    # Its clock goes by what it did, not by what this machine let it do meanwhile: given less
    # than its ticks take, it would do nothing else.
    "arm64": ("aarch64", "aarch64-unknown-linux-gnu", "ttyAMA0",
              ["-machine", "virt", "-cpu", "cortex-a57", "-icount", "shift=2"]),
}
LIMIT_SECONDS = 3600


def tools():
    """The folder of qemu and what makes its disks."""
    return unpack("tools", fetch(BASE, "amd64", TOOLS))


def make_disk(tools, folder, image, size):
    """A disk with the contents of a folder."""
    image.unlink(missing_ok=True)
    run(*of_tools(tools, "sbin/mke2fs", "-q", "-t", "ext4", "-d", folder, image, size))


@functools.cache
def initial(suite, arch, busybox):
    """The kernel's image and a first file system that finds the disk, with this busybox."""
    wanted = r"linux-(image|binary|modules)-\d"
    files = fetch(suite, arch, [f"linux-image-{arch}"], wanted)
    folder = unpack(f"kernel-{suite}-{arch}", files)
    images = [*folder.glob("boot/vmlinuz-*"), *folder.glob("usr/lib/modules/*/vmlinuz")]
    modules = next(folder.glob("**/modules/*/kernel")).parent
    first = CACHE / f"first-{suite}-{arch}"
    shutil.rmtree(first, ignore_errors=True)
    into = first / "lib/modules" / modules.name
    for file in modules.glob("kernel/**/*.ko*"):
        if MODULES.search(str(file)):
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, into)
            if file.suffix == ".xz":
                run("xz", "-d", into / file.name)
    (first / "bin").mkdir(parents=True)
    shutil.copy(busybox, first / "bin")
    run(CACHE / "tools/bin/busybox", "depmod", "-b", first, modules.name)
    shutil.copy(ROOT / "scripts/kernels-guest", first / "init")
    archive = CACHE / f"first-{suite}-{arch}.cpio"
    names = "\n".join(str(path.relative_to(first)) for path in sorted(first.rglob("*")))
    with archive.open("wb") as out:
        subprocess.run([CACHE / "tools/bin/busybox", "cpio", "-o", "-H", "newc"], input=names.encode(), stdout=out,
                       stderr=subprocess.DEVNULL, cwd=first, check=True)
    return images[0], archive, modules.name


def boot(log, tools, first, disk_image, arch, settings, restarts=False):
    """What the guest said, and why it did not say all; nothing where it did. `first` is from `initial`. With
    `restarts`, the guest may restart."""
    image, archive, _ = first
    program, _, console, machine = MACHINES[arch]
    log.unlink(missing_ok=True)
    append = f"console={console} quiet loglevel=3 panic=-1 no_timer_check {settings}"
    command = of_tools(
        tools, f"usr/bin/qemu-system-{program}", *machine,
        "-accel", "tcg,thread=single",
        "-smp", "2", "-m", "1200", "-nic", "none", "-display", "none", "-monitor", "none",
        *([] if restarts else ["-no-reboot"]), "-serial", f"file:{log}", "-L", tools / "usr/share/qemu",
        "-L", tools / "usr/share/seabios", "-kernel", image, "-initrd", archive,
        "-append", append,
        "-drive", f"file={disk_image},format=raw,if=none,id=disk,snapshot=on,cache=unsafe",
        "-device", "virtio-blk-pci,drive=disk")
    modules = tools / "usr/lib/x86_64-linux-gnu/qemu"
    environment = {**os.environ, "TMPDIR": str(CACHE), "QEMU_MODULE_DIR": str(modules)}
    try:
        done = subprocess.run([str(word) for word in command], timeout=LIMIT_SECONDS, text=True,
                              capture_output=True, env=environment)
        said = done.stderr
    except subprocess.TimeoutExpired:
        said = f"it ran for more than {LIMIT_SECONDS} s"
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line.strip("\r") for line in text.splitlines()]
    ended = "EBB done" in lines
    return "\n".join(lines), "" if ended else f"the guest did not end: {said}\n" + "\n".join(lines[-30:])


def runner(machine):
    """The static program that runs programs of another machine. The package has one for each of 30 machines."""
    program = CACHE / f"qemu-{machine}-static"
    if not program.exists():
        package, = fetch(BASE, "amd64", ["qemu-user-static"], "qemu-user-static$")
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            run("dpkg-deb", "-x", package, folder)
            (Path(folder) / "usr/bin" / program.name).rename(program)
    return program


if __name__ == "__main__":
    try:
        update([])
        print(runner(sys.argv[1]))
    except Missing as problem:
        say(problem)
        sys.exit(1)
