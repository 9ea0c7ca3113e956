/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The kernel types that the programs read, written by hand.
 *
 * Each access is relocated at load against the BTF of the running kernel. So only
 * names and nesting matter, and a struct lists only the fields that are read. A type
 * whose layout differs between kernels has one flavor for each layout, with three
 * underscores in its name. The records for the user half are in event.h.
 */
#ifndef EBB_KERNEL_H
#define EBB_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef _Bool bool;

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define SIGNAL_GROUP_EXIT 0x00000004
#define NR_MM_COUNTERS 4
#define CGROUP_SUBSYS_MAX 16
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define SOCK_STREAM 1

enum {
	TCP_SYN_SENT = 2,
	TCP_FIN_WAIT1 = 4,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_NEW_SYN_RECV = 12,
};

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

/* The value is relocated, because it depends on the kernel's configuration. */
enum cgroup_subsys_id {
	memory_cgrp_id = 4,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[CGROUP_SUBSYS_MAX];
	struct cgroup *dfl_cgrp;
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

struct percpu_counter {
	__s64 count;
};

struct mm_rss_stat {
	atomic_long_t count[NR_MM_COUNTERS];
};

struct mm_struct {
	unsigned long hiwater_rss;
	unsigned long arg_start;
	unsigned long arg_end;
};

/* Up to Linux 6.1. */
struct mm_struct___array {
	struct mm_rss_stat rss_stat;
};

/* From Linux 6.2 on. */
struct mm_struct___percpu {
	struct percpu_counter rss_stat[NR_MM_COUNTERS];
};

struct task_io_accounting {
	__u64 rchar;
	__u64 wchar;
	__u64 syscr;
	__u64 syscw;
	__u64 read_bytes;
	__u64 write_bytes;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct sched_info {
	unsigned long long run_delay;
};

struct task_delay_info {
	__u64 blkio_delay;
};

struct signal_struct {
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	atomic_t live;
	int nr_threads;
	int group_exit_code;
	unsigned int flags;
	unsigned long long sum_sched_runtime;
	unsigned long maxrss;
	struct task_io_accounting ioac;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct fs_struct {
	struct path pwd;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct ns_common {
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct net {
	struct ns_common ns;
};

struct user_namespace {
	int level;
};

struct uts_namespace {
	struct ns_common ns;
};

struct ipc_namespace {
	struct ns_common ns;
};

struct cgroup_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
	struct cgroup_namespace *cgroup_ns;
};

struct pid {
	unsigned int level;
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	unsigned in_iowait : 1;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct sched_info sched_info;
	struct task_delay_info *delays;
	struct sched_entity se;
	struct mm_struct *mm;
	int exit_state;
	int exit_code;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	__u64 start_boottime;
	const struct cred *cred;
	char comm[16];
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct task_io_accounting ioac;
};

/* Up to Linux 5.13. */
struct task_struct___old {
	long state;
};

struct linux_binprm;

struct file;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
};

struct sock_common;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct inet_sock {
	__be16 inet_sport;
};

/* Up to Linux 5.14. */
struct sock_cgroup_data___old {
	__u64 val;
};

struct sock___old {
	struct sock_cgroup_data___old sk_cgrp_data;
};

struct tcp_sock {
	__u64 bytes_received;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 total_retrans;
};

struct socket {
	struct sock *sk;
};

#pragma clang attribute pop

#endif
