/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The records that cross from the kernel to the user half.
 *
 * Each struct has a twin in probe/src/kernel/record.rs; a test reads the
 * assertions below and holds the twins to them. Times are nanoseconds of the
 * boot-time clock, memory is in pages.
 */
#ifndef EBB_EVENT_H
#define EBB_EVENT_H

enum ebb_kind {
	EBB_FORK = 1,
	EBB_EXEC = 2,
	EBB_EXIT = 3,
	EBB_REAP = 4,
	EBB_OOM = 5,
	EBB_CGROUP = 6,
	EBB_SOCKET = 7,
	/* Of a pass only. */
	EBB_RESTED = 8,
	EBB_KINDS = 9,
};

enum ebb_flag {
	/* The process has one cgroup id that means something. */
	EBB_HAS_CGROUP = 1,
	/* rss_pages and hiwater_pages were read from a live address space. */
	EBB_HAS_MM = 2,
	/* The kernel counts storage bytes for each task. */
	EBB_HAS_IO = 4,
	/* A thread that does not lead its process. */
	EBB_THREAD = 8,
	EBB_KTHREAD = 16,
	EBB_ZOMBIE = 32,
	/* The last argument is a file named .command.run. */
	EBB_NEXTFLOW = 64,
	EBB_ON_CPU = 128,
	/* Ready, and waits for a core. */
	EBB_RUNNABLE = 256,
	/* Waits for a block device, as the scheduler counts it. */
	EBB_IO_WAIT = 512,
	/* The stack of a waiting task was read. */
	EBB_HAS_STACK = 1024,
	EBB_HAS_RUN_QUEUE = 2048,
	EBB_HAS_DISK_DELAY = 4096,
	/* Both ends of the connection are on this machine. */
	EBB_LOOPBACK = 8192,
	/* Which namespaces are not the node's was asked: a bit for each from EBB_APART on. */
	EBB_HAS_APART = 16384,
	EBB_APART = 65536,
};

/* Frames from the top of a waiting task's stack; unused ones are 0. */
#define EBB_FRAMES 6

struct ebb_head {
	__u32 kind;
	__u32 flags;
	__u64 at_ns;
	__u64 start_ns;
	__u64 cgroup_id;
	__u32 tgid;
	__u32 ppid;
	char comm[16];
};
_Static_assert(sizeof(struct ebb_head) == 56, "size");
_Static_assert(__builtin_offsetof(struct ebb_head, flags) == 4, "offset");
_Static_assert(__builtin_offsetof(struct ebb_head, at_ns) == 8, "offset");
_Static_assert(__builtin_offsetof(struct ebb_head, start_ns) == 16, "offset");
_Static_assert(__builtin_offsetof(struct ebb_head, cgroup_id) == 24, "offset");
_Static_assert(__builtin_offsetof(struct ebb_head, tgid) == 32, "offset");
_Static_assert(__builtin_offsetof(struct ebb_head, ppid) == 36, "offset");
_Static_assert(__builtin_offsetof(struct ebb_head, comm) == 40, "offset");

/* work_*: the last two names of the working folder, of a Nextflow task only. */
struct ebb_exec {
	struct ebb_head head;
	__u64 maxrss_pages;
	char work_parent[16];
	char work_leaf[48];
	__u32 uid;
	__u32 unused;
};
_Static_assert(sizeof(struct ebb_exec) == 136, "size");
_Static_assert(__builtin_offsetof(struct ebb_exec, maxrss_pages) == 56, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exec, work_parent) == 64, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exec, work_leaf) == 80, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exec, uid) == 128, "offset");

/*
 * Finer counts of a task or a process. user_ns and system_ns are by the tick:
 * their ratio divides the exact CPU time.
 */
struct ebb_finer {
	__u64 user_ns;
	__u64 system_ns;
	__u64 voluntary;
	__u64 involuntary;
	__u64 minor_faults;
	__u64 major_faults;
	__u64 run_queue_ns;
	__u64 disk_delay_ns;
	/* Asked for by calls, of files, pipes and devices, whoever answered. */
	__u64 asked_read_bytes;
	__u64 asked_write_bytes;
	__u64 read_calls;
	__u64 write_calls;
};
_Static_assert(sizeof(struct ebb_finer) == 96, "size");
_Static_assert(__builtin_offsetof(struct ebb_finer, system_ns) == 8, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, voluntary) == 16, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, minor_faults) == 32, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, run_queue_ns) == 48, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, disk_delay_ns) == 56, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, asked_read_bytes) == 64, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, asked_write_bytes) == 72, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, read_calls) == 80, "offset");
_Static_assert(__builtin_offsetof(struct ebb_finer, write_calls) == 88, "offset");

/*
 * EBB_EXIT: the last thread ends; CPU and bytes lack what the process does
 * until it is gone. EBB_REAP: the process is gone and the totals are final.
 */
struct ebb_exit {
	struct ebb_head head;
	__u64 cpu_ns;
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 rss_pages;
	__u64 hiwater_pages;
	__u64 maxrss_pages;
	__u32 exit_code;
	__u32 unused;
};
_Static_assert(sizeof(struct ebb_exit) == 112, "size");
_Static_assert(__builtin_offsetof(struct ebb_exit, cpu_ns) == 56, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exit, read_bytes) == 64, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exit, write_bytes) == 72, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exit, rss_pages) == 80, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exit, hiwater_pages) == 88, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exit, maxrss_pages) == 96, "offset");
_Static_assert(__builtin_offsetof(struct ebb_exit, exit_code) == 104, "offset");

struct ebb_reap {
	struct ebb_exit end;
	struct ebb_finer finer;
};
_Static_assert(sizeof(struct ebb_reap) == 208, "size");
_Static_assert(__builtin_offsetof(struct ebb_reap, finer) == 112, "offset");

/* A cgroup of the chosen hierarchy was made; its id is head.cgroup_id. */
struct ebb_cgroup {
	struct ebb_head head;
	char path[328];
};
_Static_assert(sizeof(struct ebb_cgroup) == 384, "size");
_Static_assert(__builtin_offsetof(struct ebb_cgroup, path) == 56, "offset");

/*
 * A TCP socket: one that ended, from the ring, or one that is open, from a pass.
 * head.tgid and start_ns are its process, 0 when unknown; counts are since it was
 * made. sent_bytes counts each byte once, however often it was sent.
 */
struct ebb_socket {
	struct ebb_head head;
	__u64 socket;
	__u64 received_bytes;
	__u64 sent_bytes;
	__u64 retransmits;
};
_Static_assert(sizeof(struct ebb_socket) == 88, "size");
_Static_assert(__builtin_offsetof(struct ebb_socket, socket) == 56, "offset");
_Static_assert(__builtin_offsetof(struct ebb_socket, received_bytes) == 64, "offset");
_Static_assert(__builtin_offsetof(struct ebb_socket, sent_bytes) == 72, "offset");
_Static_assert(__builtin_offsetof(struct ebb_socket, retransmits) == 80, "offset");

/*
 * One task of an iterator pass. A leader's ended_* hold what the ended threads
 * of its process used; other threads leave them 0. Its finer counts hold theirs
 * too, but for the two delays, which the kernel does not sum.
 */
struct ebb_task {
	struct ebb_head head;
	__u64 cpu_ns;
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 ended_cpu_ns;
	__u64 ended_read_bytes;
	__u64 ended_write_bytes;
	__u64 anon_pages;
	__u64 file_pages;
	__u64 shmem_pages;
	__u64 hiwater_pages;
	__u64 maxrss_pages;
	struct ebb_finer finer;
	__u64 stack[EBB_FRAMES];
	__u32 tid;
	__u32 uid;
};
_Static_assert(sizeof(struct ebb_task) == 296, "size");
_Static_assert(__builtin_offsetof(struct ebb_task, cpu_ns) == 56, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, ended_cpu_ns) == 80, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, anon_pages) == 104, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, hiwater_pages) == 128, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, maxrss_pages) == 136, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, finer) == 144, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, stack) == 240, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, tid) == 288, "offset");
_Static_assert(__builtin_offsetof(struct ebb_task, uid) == 292, "offset");

/* A task that has waited ever since a pass told it: nothing came to it. */
struct ebb_rested {
	__u32 kind;
	__u32 tid;
};
_Static_assert(sizeof(struct ebb_rested) == 8, "size");
_Static_assert(__builtin_offsetof(struct ebb_rested, tid) == 4, "offset");

#endif
