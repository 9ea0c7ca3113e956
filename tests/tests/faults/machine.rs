//! Parts of the machine that make a fault: a cgroup with a limit, and a disk on a loop device. Each is
//! removed on drop.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use ebb_test_support::skip;
use tempfile::TempDir;

/// Size of a disk in bytes.
const DISK_BYTES: u64 = 64 << 20;

pub(crate) fn needs_ebpf() {
    if !rustix::process::geteuid().is_root() {
        skip("not root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip("this kernel has no type information (/sys/kernel/btf/vmlinux)");
    }
    if !Path::new("/sys/kernel/tracing").exists() {
        skip("this kernel reports no OOM kills (/sys/kernel/tracing)");
    }
}

/// A process that is killed may need a moment until it frees a cgroup or a disk.
fn try_for_seconds(mut is_done: impl FnMut() -> bool) {
    for _ in 0..50 {
        if is_done() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
}

/// The output of a program, or its errors.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(program).args(arguments).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// A cgroup v1 with limits.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// A cgroup of this controller. Each limit has the name of its file.
    pub(crate) fn new(controller: &str, limits: &[(&str, &str)]) -> Self {
        let tree = Path::new("/sys/fs/cgroup").join(controller);
        if !tree.join("cgroup.procs").exists() {
            skip(format_args!(
                "no cgroup v1 with the controller {controller}"
            ));
        }
        let folder = tree.join(format!("ebb-fault-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&folder) {
            skip(format_args!("{}: {error}", folder.display()));
        }
        let cgroup = Self(folder);
        for (file, limit) in limits {
            if let Err(error) = fs::write(cgroup.0.join(file), limit) {
                skip(format_args!("{file} cannot be set: {error}"));
            }
        }
        cgroup
    }

    /// The file to which a process writes its number to enter the cgroup.
    pub(crate) fn processes(&self) -> String {
        self.0.join("cgroup.procs").display().to_string()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        try_for_seconds(|| fs::remove_dir(&self.0).is_ok());
    }
}

/// A loop device.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = output("losetup", &["--detach", &self.0]);
    }
}

/// A file system on a loop device.
pub(crate) struct Disk {
    device: Loop,
    folder: TempDir,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self::try_new().unwrap_or_else(|reason| skip(format_args!("no loop device: {reason}")))
    }

    fn try_new() -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(text)?;
        let image = folder.path().join("image");
        let file = fs::File::create(&image).map_err(text)?;
        file.set_len(DISK_BYTES).map_err(text)?;
        let image = image.display().to_string();
        let device = Loop(output("losetup", &["--find", "--show", &image])?);
        output("mkfs.ext4", &["-q", &device.0])?;
        let disk = Self { device, folder };
        fs::create_dir(disk.path()).map_err(text)?;
        output(
            "mount",
            &[&disk.device.0, &disk.path().display().to_string()],
        )?;
        Ok(disk)
    }

    /// Where the file system is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Major and minor number of the device.
    pub(crate) fn number(&self) -> String {
        let name = Path::new(&self.device.0).file_name().expect("a name");
        let file = Path::new("/sys/block").join(name).join("dev");
        fs::read_to_string(file)
            .expect("a number")
            .trim()
            .to_owned()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let path = self.path().display().to_string();
        try_for_seconds(|| output("umount", &[&path]).is_ok());
    }
}
