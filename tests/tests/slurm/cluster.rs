//! A real Slurm cluster of one node in a temporary folder, with or without its accounting: munge,
//! slurmctld, slurmd, and for the accounting slurmdbd with MariaDB. All ports are on 127.0.0.1.
//!
//! Slurm refuses cgroup v2 on a machine that also has v1. There, its daemons on v2 have their own
//! mount namespace, and a library hides the lines of v1 in `/proc/*/cgroup` from them. The tree that
//! they make in the kernel is real, without controllers that limit.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ebb_test_support::skip;
use tempfile::TempDir;

use crate::probe::{Running, wait_for};

/// Programs of Debian's packages slurmctld, slurmd, slurm-client and munge.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "sbatch", "squeue"];

/// Programs of Debian's packages slurmdbd and mariadb-server, and of slurm-client.
const ACCOUNTING_PROGRAMS: [&str; 4] = ["slurmdbd", "mariadbd", "mariadb-install-db", "sacct"];

/// Whether the cluster stores what jobs used, so that `sacct` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounting {
    None,
    Slurmdbd,
}

/// The version of cgroups in which Slurm puts its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cgroups {
    V1,
    V2,
}

/// Where a machine with cgroup v1 has the tree of v2.
const HYBRID_TREE: &str = "/sys/fs/cgroup/unified";

/// Hides the lines of cgroup v1.
const HIDE_V1: &str = include_str!("hide_cgroup_v1.c");

/// Held by the test that runs: a probe observes the whole machine, and clusters share cgroups.
static TURN: Mutex<()> = Mutex::new(());

/// The number of clusters of this process.
static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// Waits for the turn of the test. Skips it on a machine that cannot run the cluster.
pub(crate) fn take_turn(accounting: Accounting, cgroups: Cgroups) -> MutexGuard<'static, ()> {
    check_machine(accounting);
    check_cgroups(cgroups);
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_cgroups(cgroups: Cgroups) {
    let has_v1 = Path::new("/sys/fs/cgroup/freezer").exists();
    match cgroups {
        Cgroups::V1 if !has_v1 => skip("no cgroup v1"),
        Cgroups::V2 if !tree_of_v2().join("cgroup.procs").exists() => skip("no cgroup v2"),
        Cgroups::V1 | Cgroups::V2 => {}
    }
}

/// The tree of cgroup v2 of this machine, if it has one.
fn tree_of_v2() -> &'static Path {
    let hybrid = Path::new(HYBRID_TREE);
    if hybrid.exists() {
        hybrid
    } else {
        Path::new("/sys/fs/cgroup")
    }
}

fn check_machine(accounting: Accounting) {
    if !rustix::process::geteuid().is_root() {
        skip("not root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        skip("this kernel has no type information (/sys/kernel/btf/vmlinux)");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .collect();
    let more = match accounting {
        Accounting::None => &[][..],
        Accounting::Slurmdbd => &ACCOUNTING_PROGRAMS,
    };
    for name in PROGRAMS.iter().chain(more) {
        if !folders.iter().any(|folder| folder.join(name).exists()) {
            skip(format_args!("no {name}; scripts/setup test installs it"));
        }
    }
}

/// A Slurm cluster of this machine. It ends with its fields: first the daemons, then the folder.
pub(crate) struct Cluster {
    daemons: Vec<Running>,
    _scope: Option<Scope>,
    folder: TempDir,
}

/// The part of the tree of cgroup v2 that systemd makes for Slurm. This cluster makes it itself,
/// and removes it at the end.
struct Scope(PathBuf);

impl Scope {
    fn new() -> Self {
        let slice = tree_of_v2().join("system.slice");
        if !slice.exists() {
            fs::create_dir(&slice).expect("root may");
        }
        Self(slice)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let scopes = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for scope in scopes.filter(|one| is_scope(&one.path())) {
            remove_cgroups(&scope.path());
        }
        // It stays if it belongs to systemd, because it has more cgroups then.
        let _ = fs::remove_dir(&self.0);
    }
}

fn is_scope(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().ends_with("slurmstepd.scope")
}

/// Removes a cgroup with all below it, as far as no process is in them.
fn remove_cgroups(folder: &Path) {
    for child in fs::read_dir(folder).into_iter().flatten().flatten() {
        if child.path().is_dir() {
            remove_cgroups(&child.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

impl Cluster {
    /// Starts a cluster with further lines of `slurm.conf`.
    pub(crate) fn start(accounting: Accounting, cgroups: Cgroups, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut cluster = Self {
            daemons: Vec::new(),
            _scope: (cgroups == Cgroups::V2).then(Scope::new),
            folder,
        };
        for name in ["state", "spool"] {
            fs::create_dir(cluster.path().join(name)).expect("a folder");
        }
        write_key(cluster.path());
        let database_port = free_port();
        let mut lines = more.to_owned();
        lines.push_str(&match accounting {
            Accounting::None => "JobAcctGatherType=jobacct_gather/none\n".to_owned(),
            Accounting::Slurmdbd => accounting_lines(cluster.path(), database_port),
        });
        write_configuration(cluster.path(), cgroups, &lines);
        cluster.start_munge();
        if accounting == Accounting::Slurmdbd {
            cluster.start_accounting(database_port);
        }
        cluster.start_daemon("slurmctld");
        if cgroups == Cgroups::V2 && tree_of_v2() == Path::new(HYBRID_TREE) {
            cluster.start_slurmd_without_v1();
        } else {
            cluster.start_daemon("slurmd");
        }
        let end = Instant::now() + Duration::from_secs(20);
        while !cluster.ask("sinfo", &["-h", "-o", "%t"]).contains("idle") {
            if Instant::now() > end {
                skip(format_args!(
                    "slurmd does not start here: {}",
                    cluster.log("slurmd")
                ));
            }
            sleep(Duration::from_millis(200));
        }
        cluster
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(format!("{name}.out"))).unwrap_or_default()
    }

    /// Daemons stop in the reverse of the order in which they start.
    fn run(&mut self, name: &str, command: &mut Command) {
        let log = self.path().join(format!("{name}.out"));
        self.daemons.insert(0, Running::start(command, &log));
    }

    /// A program that uses the clients of this cluster.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command
            .env("SLURM_CONF", self.path().join("slurm.conf"))
            .env("SLURM_TIME_FORMAT", "%s")
            // The MariaDB client of slurmdbd connects to this socket.
            .env("MYSQL_UNIX_PORT", self.path().join("db.socket"));
        command
    }

    fn start_daemon(&mut self, name: &str) {
        let mut command = self.command(&format!("/usr/sbin/{name}"));
        self.run(name, command.arg("-D"));
    }

    /// Starts `slurmd` where it finds cgroup v2 only.
    fn start_slurmd_without_v1(&mut self) {
        let (source, library) = (self.path().join("hide.c"), self.path().join("hide.so"));
        fs::write(&source, HIDE_V1).expect("a file");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
        let compiled = compiler.arg(&source).status().expect("cc starts");
        assert!(compiled.success(), "the library is valid C");
        let script = "mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec env LD_PRELOAD=\"$0\" /usr/sbin/slurmd -D";
        let mut slurmd = self.command("unshare");
        slurmd.args(["--mount", "sh", "-c", script]).arg(library);
        self.run("slurmd", &mut slurmd);
    }

    fn start_munge(&mut self) {
        let at = self.path().to_owned();
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["--foreground", "--force"]);
        for (option, file) in [
            ("--key-file", "munge.key"),
            ("--socket", "munge.socket"),
            ("--pid-file", "munge.pid"),
            ("--log-file", "munge.log"),
            ("--seed-file", "munge.seed"),
        ] {
            munged.arg(format!("{option}={}", at.join(file).display()));
        }
        self.run("munged", &mut munged);
        wait_for("munge", || at.join("munge.socket").exists());
    }

    /// MariaDB without a port, and slurmdbd.
    fn start_accounting(&mut self, port: u16) {
        let at = self.path().to_owned();
        let data = format!("--datadir={}", at.join("db").display());
        let installed = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--skip-test-db", "--user=root", &data])
            .arg("--auth-root-authentication-method=normal")
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&installed.stderr);
        assert!(installed.status.success(), "{errors}");
        let mut database = Command::new("mariadbd");
        database
            .args(["--no-defaults", "--user=root", "--skip-networking", &data])
            .args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"])
            .arg("--innodb-flush-log-at-trx-commit=0")
            .arg(format!("--socket={}", at.join("db.socket").display()))
            .arg(format!("--pid-file={}", at.join("db.pid").display()));
        self.run("mariadbd", &mut database);
        wait_for("MariaDB", || at.join("db.socket").exists());
        let (host, d) = (host_name(), at.display());
        let text = format!(
            "AuthType=auth/munge\nAuthInfo=socket={d}/munge.socket\nDbdHost={host}\n\
             DbdAddr=127.0.0.1\nDbdPort={port}\nSlurmUser=root\nStorageHost=localhost\n\
             StorageType=accounting_storage/mysql\nStorageUser=root\nStorageLoc=slurm\n\
             PidFile={d}/slurmdbd.pid\n"
        );
        let file = at.join("slurmdbd.conf");
        fs::write(&file, text).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a file");
        self.start_daemon("slurmdbd");
        wait_for("slurmdbd", || {
            let output = self
                .command("sacctmgr")
                .args(["-n", "show", "cluster"])
                .output();
            output.expect("it starts").status.success()
        });
    }

    /// The output of a client of Slurm.
    pub(crate) fn ask(&self, name: &str, arguments: &[&str]) -> String {
        let output = self.command(name).args(arguments).output();
        String::from_utf8(output.expect("it starts").stdout).expect("UTF-8")
    }

    /// Submits a script from a folder; returns the id of the job.
    pub(crate) fn submit(
        &self,
        name: &str,
        more: &[&str],
        (folder, script): (&Path, &str),
    ) -> String {
        let file = folder.join("job.sh");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        let file = file.display().to_string();
        let folder = folder.display().to_string();
        let mut line = vec!["--parsable", "--mem=100", "-o", "/dev/null"];
        line.extend(["-D", &folder, "-J", name]);
        line.extend(more);
        line.push(&file);
        let id = self.ask("sbatch", &line).trim().to_owned();
        assert!(!id.is_empty(), "sbatch accepted the job {name}");
        id
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn host_name() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    host.trim().to_owned()
}

fn write_key(at: &Path) {
    let mut key = [0; 64];
    for (n, byte) in key.iter_mut().enumerate() {
        *byte = u8::try_from(n).unwrap_or(0) ^ 0x5a;
    }
    let key_file = at.join("munge.key");
    fs::write(&key_file, key).expect("a key");
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).expect("a key");
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("a folder");
}

fn accounting_lines(at: &Path, port: u16) -> String {
    let d = at.display();
    format!(
        "JobAcctGatherType=jobacct_gather/cgroup\nJobAcctGatherFrequency=1\n\
         AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n\
         AccountingStoragePort={port}\nAccountingStoragePass={d}/munge.socket\n\
         AccountingStoreFlags=job_comment\n"
    )
}

fn write_configuration(at: &Path, cgroups: Cgroups, more: &str) {
    let host = host_name();
    // Cgroups of another cluster of this machine have other job ids.
    let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let first_job = 1_000_000 + std::process::id() % 100_000 * 100 + number * 50;
    let (d, control, node) = (at.display(), free_port(), free_port());
    let mut text = format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         SlurmctldPort={control}\nSlurmdPort={node}\nAuthType=auth/munge\n\
         AuthInfo=socket={d}/munge.socket\nFirstJobId={first_job}\nStateSaveLocation={d}/state\n\
         SlurmdSpoolDir={d}/spool\nSlurmctldPidFile={d}/slurmctld.pid\n\
         SlurmdPidFile={d}/slurmd.pid\nProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nReturnToService=2\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000\n\
         PartitionName=main Nodes={host} Default=YES MaxTime=10 State=UP\n"
    );
    text.push_str(more);
    fs::write(at.join("slurm.conf"), text).expect("a file");
    let cgroup = match cgroups {
        Cgroups::V1 => "CgroupAutomount=no\nConstrainCores=yes\nConstrainRAMSpace=yes\n",
        Cgroups::V2 => "CgroupAutomount=no\nCgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n",
    };
    fs::write(at.join("cgroup.conf"), cgroup).expect("a file");
}
