/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The records that the kernel half sends to the user half.
 *
 * This file is the only source of their layout: probe/build/records.rs generates
 * the Rust types from it. It may use structs and enums with numbers, __u32, __u64,
 * char, arrays, and structs above. Fields need no padding between them.
 *
 * Times are nanoseconds of the boot-time clock. Memory is in pages.
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
	/* Only in scans. */
	EBB_UNCHANGED = 8,
	EBB_KINDS = 9,
};

enum ebb_flag {
	/* cgroup_id is valid. */
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
	/* The namespaces were compared with those of the node. */
	EBB_HAS_NAMESPACES = 16384,
	/* A program start whose first arguments are -m snakemake. */
	EBB_SNAKEMAKE = 32768,
	/*
	 * The lowest of seven bits, one for each kind of namespace. A bit is set if the
	 * task is not in the namespace of the node. namespaces.h has the order.
	 */
	EBB_OWN_NAMESPACE = 65536,
};

/* The kind of an address. */
enum ebb_scope {
	EBB_LINK_LOCAL = 1,
	EBB_PRIVATE = 2,
	EBB_PUBLIC = 3,
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

/* work_*: the last two names of the working folder, only of a Nextflow task. */
struct ebb_exec {
	struct ebb_head head;
	__u64 maxrss_pages;
	char work_parent[16];
	char work_leaf[48];
	__u32 uid;
	__u32 unused;
};

/*
 * More counters of a task or a process. The kernel divides user_ns and system_ns by
 * clock ticks; only their ratio is used, to divide the exact CPU time.
 */
struct ebb_task_counters {
	__u64 user_ns;
	__u64 system_ns;
	__u64 voluntary;
	__u64 involuntary;
	__u64 minor_faults;
	__u64 major_faults;
	__u64 run_queue_ns;
	__u64 disk_delay_ns;
	/* Read and write calls on files, pipes and devices, including cache hits. */
	__u64 syscall_read_bytes;
	__u64 syscall_write_bytes;
	__u64 read_calls;
	__u64 write_calls;
};

/*
 * EBB_EXIT: the last thread ends. The totals lack what the process still does until
 * it is released.
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

/*
 * EBB_REAP: the process is released and the totals are final. It has no time, because
 * to read the clock takes a fifth of the program.
 */
struct ebb_reap {
	__u32 kind;
	__u32 flags;
	__u64 start_ns;
	__u32 tgid;
	__u32 unused;
	__u64 cpu_ns;
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 maxrss_pages;
	struct ebb_task_counters counters;
};

/* A cgroup was created in the hierarchy of the memory controller. */
struct ebb_cgroup {
	struct ebb_head head;
	char path[328];
};

/*
 * A TCP socket: one that ended, from the ring buffer, or an open one, from a scan.
 * head.tgid and head.start_ns identify its process, or are 0 if it is unknown.
 * Counters start when the socket is created. sent_bytes excludes retransmissions.
 */
struct ebb_socket {
	struct ebb_head head;
	__u64 socket;
	__u64 received_bytes;
	__u64 sent_bytes;
	__u64 retransmits;
	__u32 peer_port;
	__u32 own_port;
	/* enum ebb_scope */
	__u32 peer_scope;
	__u32 unused;
};

/*
 * One task in a scan. The ended_* fields of a leader contain the totals of the ended
 * threads of its process; they are 0 in other threads. The counters of a leader
 * include ended threads too, except the two delays, which the kernel does not sum.
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
	struct ebb_task_counters counters;
	__u64 stack[EBB_FRAMES];
	__u32 tid;
	__u32 uid;
};

/* A task that has waited since a scan reported it, so nothing of it changed. */
struct ebb_unchanged {
	__u32 kind;
	__u32 tid;
};

/* Assertions about every size and offset, which the build script generates. */
#ifdef EBB_LAYOUT
#include EBB_LAYOUT
#endif

#endif
