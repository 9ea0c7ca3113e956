//! A process with a secret in its environment, its arguments, an open file and the payload of its
//! sockets runs next to a real probe. The secret must not be in anything that the probe writes,
//! sends or logs, nor in the BPF maps.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_long, c_void};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink, files};
use crate::{SECOND, program};

/// The secret of each test. They differ because each probe sees the processes of both tests.
const SECRET_BY_DEFAULT: &str = "CANARY7f3a91";
const SECRET_WITH_ARGUMENTS: &str = "CANARY04c2be";
/// The script's name, which the probe sends on purpose: it proves that the search works.
const SCRIPT_NAME: &str = "told7f3a91.py";

/// Keeps a file open, and sends over TCP and over a local socket for 12 seconds.
const APP: &str = "\
import os, socket, sys, time
secret = os.environ['CANARY_SECRET'].encode()
kept = open(sys.argv[1])
assert secret in kept.read().encode()
there = socket.socket(); there.bind(('127.0.0.1', 0)); there.listen()
here = socket.create_connection(there.getsockname()); peer, _ = there.accept()
one, other = socket.socketpair()
for _ in range(24):
    for a, b in ((here, peer), (one, other)):
        a.sendall(secret * 50)
        got = b.recv(100000)
        assert secret in got
    time.sleep(0.5)
";

/// A folder with the script and the file; their names are not secret.
struct Place {
    folder: tempfile::TempDir,
    secret: &'static str,
}

impl Place {
    fn new(secret: &'static str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        fs::write(folder.path().join(SCRIPT_NAME), APP).expect("written");
        let text = format!("the key is {secret}\n");
        fs::write(folder.path().join("kept.txt"), text).expect("written");
        Self { folder, secret }
    }

    fn shown(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A task that runs the program with these arguments.
    fn run(&self, task: &Task, arguments: &str) -> Child {
        let (app, kept) = (self.shown(SCRIPT_NAME), self.shown("kept.txt"));
        let [shell, first, enter, zero, _] = task.command("");
        // The shell is the task's first process, so its arguments are sent where that is enabled.
        // The script is one argument of several words, which is masked as a whole.
        let script = format!("exec python3 {app} {kept} {arguments}");
        Command::new(shell)
            .args([first, enter, zero, script])
            .env("CANARY_SECRET", self.secret)
            .spawn()
            .expect("there is a shell")
    }
}

/// The secret in every form that arguments can have. By default the probe sends no argument.
fn every_argument(secret: &str) -> String {
    format!(
        "{secret} -p{secret} --password={secret} --token {secret} 'https://h/?key={secret}' \
         https://me:{secret}@h/ --in=/data/{secret}/x.bam"
    )
}

/// The secret in the forms that are masked with `export_args`.
fn masked_arguments(secret: &str) -> String {
    format!(
        "--password={secret} --api-key {secret} 'https://h/p?x=1&q={secret}' \
         https://me:{secret}@h/ 'Authorization: Bearer {secret}' --opts=token:{secret}"
    )
}

/// Everything that is searched, each part with its name.
struct Haystack(Vec<(String, Vec<u8>)>);

impl Haystack {
    /// Everything that the probe wrote, sent and logged, and its BPF maps, while it runs.
    fn collect(probe: &Probe, sink: &Sink) -> Self {
        let mut all = vec![("log".to_owned(), probe.log().into_bytes())];
        for path in files(sink.folder(), "") {
            all.push((
                path.display().to_string(),
                fs::read(&path).unwrap_or_default(),
            ));
        }
        let records = sink.read();
        let text = format!("{:?} {:?}", records.heartbeats, records.ended);
        all.push(("what was sent".to_owned(), text.into_bytes()));
        all.extend(maps_of(probe.pid()));
        Self(all)
    }

    fn holding(&self, text: &str) -> Vec<&str> {
        let holds = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        let found = self.0.iter().filter(|(_, bytes)| holds(bytes));
        found.map(|(name, _)| name.as_str()).collect()
    }
}

fn watch(secret: &'static str, switched_on: &str, arguments: &str) {
    let (sink, place) = (Sink::new(), Place::new(secret));
    let config = sink.folder().join("probe.toml");
    let folder = sink.folder().display().to_string();
    let text = format!(
        "place = '{folder}'\nspool_dir = '{folder}/spool'\nlabel_socket = '{folder}/label.sock'\n\
         interval_seconds = 1\nsample_seconds = 1\nsteps_seconds = 1\n{switched_on}"
    );
    fs::write(&config, text).expect("written");
    // One process starts before the probe and one after it.
    let tasks = [Task::new(None), Task::new(None)];
    let mut before = place.run(&tasks[0], arguments);
    let mut command = Command::new(program());
    command.args(["run", "--config"]).arg(&config);
    command.env("RUST_LOG", "trace");
    let probe = Probe::spawn(command);
    let mut after = place.run(&tasks[1], arguments);
    std::thread::sleep(3 * SECOND);
    // The spool is searched while nothing can be sent.
    sink.break_it();
    std::thread::sleep(3 * SECOND);
    let snapshot = Command::new(program())
        .args(["snapshot", "--interval", "1", "--format", "json"])
        .output();
    let snapshot = snapshot.expect("the probe is built").stdout;
    let mut places = Haystack::of_spool_and_maps(&probe, &sink);
    places.push(("snapshot".to_owned(), snapshot));
    sink.mend();
    for child in [&mut before, &mut after] {
        let status = child.wait().expect("it ends");
        assert!(
            status.success(),
            "the script checks that it has the secret: {status}"
        );
    }
    std::thread::sleep(3 * SECOND);
    places.extend(Haystack::collect(&probe, &sink).0);
    probe.stop();
    let records = sink.read();
    places.push((
        "what ended".to_owned(),
        format!("{:?}", records.ended).into_bytes(),
    ));
    let all = Haystack(places);
    for there in ["snapshot", "what was sent", "map "] {
        let found = all.holding(if there == "map " {
            "python3"
        } else {
            SCRIPT_NAME
        });
        assert!(
            found.iter().any(|name| name.starts_with(there)),
            "{there}: {found:?}"
        );
    }
    let of_tasks = records
        .ended
        .iter()
        .filter(|step| tasks.iter().any(|t| t.id == step.id.key));
    assert_eq!(of_tasks.count(), 2, "both are steps");
    assert_eq!(all.holding(secret), Vec::<&str>::new());
}

impl Haystack {
    /// The spool and the BPF maps, while nothing can be sent.
    fn of_spool_and_maps(probe: &Probe, sink: &Sink) -> Vec<(String, Vec<u8>)> {
        let spool = files(&sink.folder().join("spool"), ".rec");
        assert!(!spool.is_empty(), "the spool is empty");
        let read = |path: PathBuf| (path.display().to_string(), fs::read(&path).expect("read"));
        spool
            .into_iter()
            .map(read)
            .chain(maps_of(probe.pid()))
            .collect()
    }
}

pub(crate) fn a_secret_is_in_nothing_that_the_probe_writes_or_sends() {
    needs_ebpf();
    let secret = SECRET_BY_DEFAULT;
    watch(secret, "", &every_argument(secret));
}

pub(crate) fn a_secret_is_masked_where_arguments_and_files_are_sent() {
    needs_ebpf();
    let secret = SECRET_WITH_ARGUMENTS;
    watch(
        secret,
        "export_args = true\nfiles_depth = 9\n",
        &masked_arguments(secret),
    );
}

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn mmap(
        at: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
}

/// Commands of bpf(2).
///
/// Source: `include/uapi/linux/bpf.h`.
const LOOK_UP: c_int = 1;
const NEXT_KEY: c_int = 4;
const FD_BY_ID: c_int = 14;
const INFO_BY_FD: c_int = 15;
const PER_CPU_ARRAY: u32 = 6;
const RING: u32 = 27;

fn bpf(command: c_int, words: [u64; 4]) -> c_long {
    const NUMBER: c_long = if cfg!(target_arch = "x86_64") {
        321
    } else {
        280
    };
    let mut words = words;
    // SAFETY: the callers pass pointers in `words` with room for what each command writes.
    unsafe { syscall(NUMBER, command, words.as_mut_ptr(), size_of_val(&words)) }
}

/// The BPF maps that a process has open, each with its name and its content.
fn maps_of(pid: u32) -> Vec<(String, Vec<u8>)> {
    let folder = format!("/proc/{pid}/fdinfo");
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let about = fs::read_to_string(entry.path()).unwrap_or_default();
        let id = about.lines().find_map(|line| line.strip_prefix("map_id:"));
        ids.extend(id.and_then(|id| id.trim().parse::<u64>().ok()));
    }
    assert!(ids.len() >= 5, "no BPF maps in {folder}");
    ids.into_iter().map(dump).collect()
}

fn dump(id: u64) -> (String, Vec<u8>) {
    let file = bpf(FD_BY_ID, [id, 0, 0, 0]);
    let file = c_int::try_from(file).expect("a descriptor");
    assert!(file >= 0, "map {id} cannot be opened");
    // SAFETY: the kernel created the descriptor for this call.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let number = file.as_raw_fd() as u64;
    // `bpf_map_info` begins with type, id, key size, value size, entries, flags and name.
    let mut info = [0_u32; 64];
    let length = size_of_val(&info) as u64;
    let status = bpf(
        INFO_BY_FD,
        [number | length << 32, info.as_mut_ptr() as u64, 0, 0],
    );
    assert_eq!(status, 0, "map {id} says nothing");
    let [kind, _, key_size, value_size, entries] = info[..5] else {
        unreachable!("64 words");
    };
    let name: Vec<u8> = info[6..10]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let name = String::from_utf8_lossy(&name)
        .trim_end_matches('\0')
        .to_owned();
    let held = match kind {
        RING => ring(&file, entries as usize),
        _ => {
            let cpus = if kind == PER_CPU_ARRAY { 1_024 } else { 1 };
            let sizes = (
                key_size as usize,
                value_size.next_multiple_of(8) as usize * cpus,
            );
            entries_of(number, sizes)
        }
    };
    (format!("map {name}"), held)
}

fn entries_of(map: u64, (key_size, value_size): (usize, usize)) -> Vec<u8> {
    let (mut key, mut next) = (vec![0_u8; key_size], vec![0_u8; key_size]);
    let mut value = vec![0_u8; value_size];
    let mut held = Vec::new();
    let mut from = 0;
    // The walk restarts if a key of a hash is deleted meanwhile, so it is bounded.
    for _ in 0..1 << 17 {
        if bpf(NEXT_KEY, [map, from, next.as_mut_ptr() as u64, 0]) != 0 {
            break;
        }
        key.copy_from_slice(&next);
        from = key.as_ptr() as u64;
        if bpf(LOOK_UP, [map, from, value.as_mut_ptr() as u64, 0]) == 0 {
            held.extend(&key);
            held.extend(&value);
        }
    }
    held
}

/// The data of a ring buffer, consumed or not. Its first page holds the producer's position.
fn ring(file: &OwnedFd, bytes: usize) -> Vec<u8> {
    const READ: c_int = 1;
    const SHARED: c_int = 1;
    let page = rustix::param::page_size();
    let length = page + 2 * bytes;
    // SAFETY: a new read-only mapping of the size that the kernel documents for a ring buffer.
    let at = unsafe {
        mmap(
            std::ptr::null_mut(),
            length,
            READ,
            SHARED,
            file.as_raw_fd(),
            page as i64,
        )
    };
    assert_ne!(at as isize, -1, "the ring cannot be mapped");
    // SAFETY: `length` bytes are mapped. The kernel can write meanwhile, and the copy is only
    // searched.
    let held = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) }.to_vec();
    // SAFETY: it was mapped above, and nothing uses it any more.
    unsafe { munmap(at, length) };
    held
}

pub(crate) fn the_search_finds_the_secret() {
    let all = Haystack(vec![
        ("a".to_owned(), format!("x{SECRET_BY_DEFAULT}").into_bytes()),
        ("b".to_owned(), b"nothing".to_vec()),
    ]);
    assert_eq!(all.holding(SECRET_BY_DEFAULT), ["a"]);
}
