//! Determines the wait reason of a task from the function names on its kernel stack. If a function
//! was renamed, the table contains both names.

use std::collections::HashMap;

use ebb_telemetry::step::TaskState;

/// Maximum number of stored addresses; a kernel has a few hundred functions that wait.
const MAX_ADDRESSES: usize = 4_096;

/// Functions by wait reason. The stack is searched from the top, and the first function in this
/// table decides. If that is a wait for a disk or a page, a remote file system below it decides,
/// because all file systems share these functions. A trailing `*` matches any suffix. Stacks from
/// the kernel do not contain functions of the scheduler.
const NAMES: [(TaskState, &[&str]); 10] = [
    (
        TaskState::PageFault,
        &[
            "filemap_fault",
            "do_swap_page",
            "handle_userfault",
            "handle_mm_fault",
            "do_user_addr_fault",
            "exc_page_fault",
            "do_page_fault",
            "migration_entry_wait*",
        ],
    ),
    (
        TaskState::Network,
        &[
            "sk_wait_data",
            "sk_stream_wait_*",
            "tcp_*",
            "inet_csk_accept",
            "inet_stream_connect",
            "__inet_stream_connect",
            "inet_wait_for_connect",
            "udp_*",
            "raw_recvmsg",
        ],
    ),
    (
        TaskState::RemoteFileSystem,
        &[
            // NFS.
            "rpc_*",
            "nfs_*",
            "nfs3_*",
            "nfs4_*",
            // SMB.
            "cifs_*",
            "smb2_*",
            "netfs_*",
            "ceph_*",
            // Lustre.
            "ptlrpc_*",
            "ll_file_*",
            "cl_io_*",
            // 9P, of virtual machines.
            "p9_client_*",
            "v9fs_*",
            "fuse_*",
            "__fuse_*",
            "request_wait_answer",
        ],
    ),
    (
        TaskState::Disk,
        &[
            "blkdev_*",
            "blk_*",
            "submit_bio_wait",
            "__blkdev_direct_IO*",
            "iomap_dio_*",
            "__iomap_dio_rw",
            "wait_on_page_bit*",
            "folio_wait_writeback",
            "wait_on_buffer",
            "__wait_on_buffer",
            "balance_dirty_pages*",
            "jbd2_*",
            "ext4_*",
            "xfs_*",
            "btrfs_*",
            "filemap_read",
            "filemap_get_pages",
            "generic_file_read_iter",
        ],
    ),
    (
        TaskState::Pipe,
        &[
            // `pipe_read` up to Linux 6.12, `anon_pipe_read` from 6.14.
            "pipe_read",
            "pipe_write",
            "anon_pipe_read",
            "anon_pipe_write",
            "fifo_open",
            "wait_for_partner",
            "unix_stream_*",
            "unix_dgram_*",
            "unix_wait_for_peer",
        ],
    ),
    (
        TaskState::Poll,
        &[
            "ep_poll",
            "do_epoll_wait",
            "poll_schedule_timeout",
            "do_select",
            "do_sys_poll",
            "do_poll",
            "io_cqring_wait",
            "read_events",
        ],
    ),
    (
        TaskState::Timer,
        &[
            "do_nanosleep",
            "hrtimer_nanosleep",
            "common_nsleep*",
            "timerfd_read",
            "timerfd_read_iter",
        ],
    ),
    (
        TaskState::Lock,
        &[
            // `futex_wait_queue_me` up to Linux 5.15, `futex_wait_queue` up to 6.15.
            "futex_wait_queue_me",
            "futex_wait_queue",
            "futex_do_wait",
            "futex_wait",
            "__futex_wait",
            "futex_lock_pi",
            "locks_lock_inode_wait",
            "flock_lock_inode_wait",
            "fcntl_setlk",
            "do_lock_file_wait",
        ],
    ),
    (
        TaskState::Child,
        &[
            "do_wait",
            "kernel_wait4",
            "kernel_waitid",
            "wait_for_vfork_done",
            "kernel_clone",
        ],
    ),
    (
        TaskState::Other,
        &[
            "do_signal_stop",
            "ptrace_stop",
            "sigsuspend",
            "do_sigtimedwait",
            "n_tty_read",
            "msleep*",
        ],
    ),
];

/// The wait reason of a function; `None` if its name is not in the table.
fn meaning(function: &str) -> Option<TaskState> {
    let matches = |name: &&str| match name.strip_suffix('*') {
        Some(start) => function.starts_with(start),
        None => *name == function,
    };
    let found = NAMES.iter().find(|(_, names)| names.iter().any(&matches));
    found.map(|(state, _)| *state)
}

/// Whether a function of this wait is used by local and remote file systems.
const fn is_of_any_file_system(state: TaskState) -> bool {
    matches!(state, TaskState::Disk | TaskState::PageFault)
}

/// The addresses with known names.
#[derive(Debug, Default)]
pub(super) struct WaitClassifier {
    by_address: HashMap<u64, Option<TaskState>>,
}

impl WaitClassifier {
    /// Adds lines of an address and its name, in the format of `ebpf/ebb.bpf.c`: `ffffffff8134c9d5
    /// do_wait+0x45/0x80`.
    pub(super) fn learn(&mut self, lines: &[u8]) {
        let lines = String::from_utf8_lossy(lines);
        for line in lines.lines() {
            if self.by_address.len() >= MAX_ADDRESSES {
                return;
            }
            let Some((address, name)) = line.split_once(' ') else {
                continue;
            };
            // Compilers append suffixes such as `.constprop.0` to a name.
            let name = name.split(['+', '.', ' ']).next().unwrap_or_default();
            if let Ok(address) = u64::from_str_radix(address, 16) {
                self.by_address.insert(address, meaning(name));
            }
        }
    }

    /// The wait reason of a stack, from the top; `None` while a name is missing.
    pub(super) fn state(&self, stack: &[u64]) -> Option<TaskState> {
        let mut local = None;
        for address in stack.iter().filter(|address| **address != 0) {
            match *self.by_address.get(address)? {
                Some(state) if is_of_any_file_system(state) => local = local.or(Some(state)),
                Some(TaskState::RemoteFileSystem) => return Some(TaskState::RemoteFileSystem),
                Some(state) => return local.or(Some(state)),
                None => {}
            }
        }
        Some(local.unwrap_or(TaskState::Other))
    }

    /// The addresses of a stack that decide its wait reason and have no name yet.
    pub(super) fn unnamed(&self, stack: &[u64]) -> impl Iterator<Item = u64> {
        let meaning = |address: &u64| self.by_address.get(address);
        let decides = move |address: &u64| {
            let state = meaning(address).copied().flatten();
            state.is_some_and(|state| !is_of_any_file_system(state))
        };
        let in_doubt = stack.iter().take_while(move |address| !decides(address));
        let unnamed = move |address: &&u64| **address != 0 && meaning(address).is_none();
        in_doubt.filter(unnamed).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks from real kernels, from the top.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn a_stack_tells_what_is_waited_for() {
        let check = |stack: &[&str], expect: TaskState| {
            let mut classifier = WaitClassifier::default();
            let mut addresses = Vec::new();
            for (number, name) in stack.iter().enumerate() {
                let address = 0xffff_ffff_8100_0000_u64 + number as u64;
                classifier.learn(format!("{address:x} {name}+0x1/0x2\n").as_bytes());
                addresses.push(address);
            }
            addresses.push(0);
            assert_eq!(classifier.state(&addresses), Some(expect), "{stack:?}");
        };
        // 6.18
        check(
            &["do_wait", "kernel_wait4", "do_syscall_64"],
            TaskState::Child,
        );
        check(
            &["anon_pipe_read", "vfs_read", "ksys_read"],
            TaskState::Pipe,
        );
        check(&["hrtimer_nanosleep", "common_nsleep"], TaskState::Timer);
        check(
            &["futex_do_wait", "__futex_wait", "futex_wait"],
            TaskState::Lock,
        );
        check(&["do_epoll_wait", "__x64_sys_epoll_wait"], TaskState::Poll);
        check(
            &["poll_schedule_timeout.constprop.0", "do_sys_poll"],
            TaskState::Poll,
        );
        check(
            &["wait_woken", "sk_wait_data", "tcp_recvmsg_locked"],
            TaskState::Network,
        );
        check(&["inet_csk_accept", "inet_accept"], TaskState::Network);
        check(
            &[
                "__skb_wait_for_more_packets",
                "__skb_recv_udp",
                "udp_recvmsg",
            ],
            TaskState::Network,
        );
        check(
            &["unix_stream_data_wait", "unix_stream_read_generic"],
            TaskState::Pipe,
        );
        check(
            &["__iomap_dio_rw", "iomap_dio_rw", "ext4_file_read_iter"],
            TaskState::Disk,
        );
        check(
            &["folio_wait_bit_common", "filemap_fault", "__do_fault"],
            TaskState::PageFault,
        );
        check(
            &["folio_wait_bit_common", "filemap_get_pages", "filemap_read"],
            TaskState::Disk,
        );
        check(&["sigsuspend", "__x64_sys_rt_sigsuspend"], TaskState::Other);
        check(&["somewhere_new", "do_syscall_64"], TaskState::Other);
        // 5.10 to 6.12
        check(&["pipe_read", "new_sync_read"], TaskState::Pipe);
        check(&["futex_wait_queue_me", "futex_wait"], TaskState::Lock);
        check(&["futex_wait_queue", "futex_wait"], TaskState::Lock);
        let remote = TaskState::RemoteFileSystem;
        check(&["rpc_wait_bit_killable", "__rpc_execute"], remote);
        check(
            &["folio_wait_bit_common", "filemap_read", "nfs_file_read"],
            remote,
        );
        check(
            &[
                "folio_wait_bit_common",
                "filemap_read",
                "ext4_file_read_iter",
            ],
            TaskState::Disk,
        );
        check(&["request_wait_answer", "fuse_simple_request"], remote);
        check(
            &["wait_woken", "sk_wait_data", "nfs_file_read"],
            TaskState::Network,
        );
    }

    #[test]
    fn until_its_names_are_told_a_stack_is_unknown() {
        let mut classifier = WaitClassifier::default();
        assert_eq!(classifier.state(&[1, 2]), None);
        classifier.learn(b"1 schedule+0x1/0x2\nnonsense\nxyz do_wait\n");
        assert_eq!(classifier.state(&[1, 2]), None);
        let unnamed =
            |classifier: &WaitClassifier| classifier.unnamed(&[1, 2, 3, 0]).collect::<Vec<_>>();
        assert_eq!(unnamed(&classifier), [2, 3]);
        classifier.learn(b"2 do_wait+0x1/0x2");
        assert_eq!(classifier.state(&[1, 2]), Some(TaskState::Child));
        assert!(unnamed(&classifier).is_empty());
        assert_eq!(classifier.state(&[0]), Some(TaskState::Other));
        // A wait for a disk is in doubt until another wait ends the search.
        classifier.learn(b"4 filemap_read\n5 do_wait\n");
        assert_eq!(classifier.state(&[4, 5, 6]), Some(TaskState::Disk));
        assert_eq!(classifier.unnamed(&[4, 5, 6]).count(), 0);
        assert_eq!(classifier.state(&[4, 6]), None);
        assert_eq!(classifier.unnamed(&[4, 6]).collect::<Vec<_>>(), [6]);
    }
}
