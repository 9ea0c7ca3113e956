/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Reads one task: its identity, its cgroup and its resource use so far. The programs
 * in ebb.bpf.c decide when a task is read and reported.
 */
#ifndef EBB_TASK_H
#define EBB_TASK_H

/* Set before load: the hierarchy with the memory controller, 0 for cgroup v2. */
const volatile __u32 memory_hierarchy = 0;

struct process {
	__u32 tgid;
	__u32 unused;
	__u64 start_ns;
};

struct disk {
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 syscall_read_bytes;
	__u64 syscall_write_bytes;
	__u64 read_calls;
	__u64 write_calls;
};

/*
 * Bytes and calls of the ended threads of a process. The kernel's own sum,
 * signal->ioac, also includes reaped children and so would count them twice.
 *
 * The entry exists until the process is released. Nothing displaces it: any user can
 * have many processes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct process);
	__type(value, struct disk);
} ended_threads SEC(".maps");

/*
 * With cgroup v1 the default hierarchy has no useful cgroups, so this returns the
 * cgroup of the memory controller.
 */
static __always_inline __u64 cgroup_of(struct task_struct *task, __u32 *flags)
{
	struct css_set *set = task->cgroups;
	struct cgroup *cgroup = set->dfl_cgrp;

	if (memory_hierarchy) {
		if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
			return 0;
		__u64 index = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
		__u64 base = bpf_core_field_offset(struct css_set, subsys);
		struct cgroup_subsys_state **css = (void *)set + base + index * sizeof(*css);

		cgroup = (*css)->cgroup;
	}
	*flags |= EBB_HAS_CGROUP;
	return cgroup->kn->id;
}

/* Two loads instead of a call. */
static __always_inline void copy_name(char *to, struct task_struct *task)
{
	((__u64 *)to)[0] = *(__u64 *)&task->comm[0];
	((__u64 *)to)[1] = *(__u64 *)&task->comm[8];
}

static __always_inline void fill_head(struct ebb_head *head, __u32 kind, struct task_struct *leader)
{
	__u32 flags = 0;

	head->kind = kind;
	head->at_ns = 0;
	head->start_ns = leader->start_boottime;
	head->cgroup_id = cgroup_of(leader, &flags);
	head->tgid = leader->tgid;
	head->ppid = leader->real_parent->tgid;
	copy_name(head->comm, leader);
	if (bpf_core_field_exists(struct task_io_accounting, read_bytes))
		flags |= EBB_HAS_IO;
	head->flags = flags;
}

/* The two delays are those of this thread; the kernel does not sum them. */
static __always_inline void fill_delays(struct ebb_task_counters *counters, __u32 *flags, struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct, sched_info.run_delay)) {
		counters->run_queue_ns = task->sched_info.run_delay;
		*flags |= EBB_HAS_RUN_QUEUE;
	}
	if (bpf_core_field_exists(struct task_struct, delays)) {
		struct task_delay_info *delays = task->delays;

		if (delays) {
			counters->disk_delay_ns = delays->blkio_delay;
			*flags |= EBB_HAS_DISK_DELAY;
		}
	}
}

/* The counters of ended threads, including the leader once it is released. */
static __always_inline void add_ended(struct ebb_task_counters *counters, struct signal_struct *signal)
{
	counters->user_ns += signal->utime;
	counters->system_ns += signal->stime;
	counters->voluntary += signal->nvcsw;
	counters->involuntary += signal->nivcsw;
	counters->minor_faults += signal->min_flt;
	counters->major_faults += signal->maj_flt;
}

static __always_inline void add_own(struct ebb_task_counters *counters, struct task_struct *task)
{
	counters->user_ns += task->utime;
	counters->system_ns += task->stime;
	counters->voluntary += task->nvcsw;
	counters->involuntary += task->nivcsw;
	counters->minor_faults += task->min_flt;
	counters->major_faults += task->maj_flt;
}

/* Whether a task runs, waits for a core, or waits for something else. */
static __always_inline __u32 state_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;
	__u64 state;

	/* An int up to Linux 6.18, one byte in 7.3; CO-RE reads either size. */
	if (bpf_core_field_exists(struct task_struct, on_cpu) && BPF_CORE_READ_BITFIELD(task, on_cpu))
		return EBB_ON_CPU;
	if (bpf_core_field_exists(struct task_struct, __state))
		state = task->__state;
	else
		state = old->state;
	if (!state)
		return EBB_RUNNABLE;
	return BPF_CORE_READ_BITFIELD(task, in_iowait) ? EBB_IO_WAIT : 0;
}

struct rss {
	__u64 file;
	__u64 anon;
	__u64 shmem;
};

/* A per-CPU counter is approximate and can be negative for a moment. */
static __always_inline __u64 not_negative(__s64 pages)
{
	return pages < 0 ? 0 : pages;
}

static __always_inline void read_rss(struct mm_struct *mm, struct rss *rss)
{
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		/* Read by address: the verifier of 5.10 does not follow a typedef in an array. */
		struct mm_struct___array *old = (void *)mm;

		rss->file = not_negative(BPF_CORE_READ(old, rss_stat.count[0].counter));
		rss->anon = not_negative(BPF_CORE_READ(old, rss_stat.count[1].counter));
		rss->shmem = not_negative(BPF_CORE_READ(old, rss_stat.count[3].counter));
	} else {
		struct mm_struct___percpu *new = (void *)mm;

		rss->file = not_negative(new->rss_stat[0].count);
		rss->anon = not_negative(new->rss_stat[1].count);
		rss->shmem = not_negative(new->rss_stat[3].count);
	}
}

static __always_inline bool is_kernel_thread(struct task_struct *task)
{
	return task->flags & PF_KTHREAD;
}

static __always_inline bool is_leader(struct task_struct *task)
{
	return task->pid == task->tgid;
}

static __always_inline struct process process_of(struct task_struct *leader)
{
	struct process process = {
		.tgid = leader->tgid,
		.start_ns = leader->start_boottime,
	};
	return process;
}

static __always_inline struct disk disk_of(struct task_struct *task)
{
	struct disk disk = {};

	if (bpf_core_field_exists(struct task_io_accounting, read_bytes)) {
		disk.read_bytes = task->ioac.read_bytes;
		disk.write_bytes = task->ioac.write_bytes;
		disk.syscall_read_bytes = task->ioac.rchar;
		disk.syscall_write_bytes = task->ioac.wchar;
		disk.read_calls = task->ioac.syscr;
		disk.write_calls = task->ioac.syscw;
	}
	return disk;
}

/*
 * Most processes never have a second thread; they have no entry in ended_threads.
 * The kernel adds the run time of a thread to its process when it releases the
 * thread. For an ending process it has added nothing yet, and for a released process
 * only the run time of the leader, leader_added.
 */
static __always_inline bool had_one_thread(struct task_struct *leader, __u64 leader_added)
{
	struct signal_struct *signal = leader->signal;

	return signal->nr_threads <= 1 && signal->sum_sched_runtime == leader_added;
}

static __always_inline void keep_disk_of_ended(struct task_struct *task, struct task_struct *leader)
{
	struct disk disk = disk_of(task);

	/* Mapped pages cause bytes without calls; polling causes calls without bytes. */
	if (!(disk.read_bytes | disk.write_bytes | disk.read_calls | disk.write_calls) ||
	    (task == leader && had_one_thread(leader, 0)))
		return;
	struct process process = process_of(leader);
	struct disk none = {};

	bpf_map_update_elem(&ended_threads, &process, &none, BPF_NOEXIST);
	struct disk *sum = bpf_map_lookup_elem(&ended_threads, &process);

	if (!sum) {
		count_lost(EBB_EXIT);
		return;
	}
	__sync_fetch_and_add(&sum->read_bytes, disk.read_bytes);
	__sync_fetch_and_add(&sum->write_bytes, disk.write_bytes);
	__sync_fetch_and_add(&sum->syscall_read_bytes, disk.syscall_read_bytes);
	__sync_fetch_and_add(&sum->syscall_write_bytes, disk.syscall_write_bytes);
	__sync_fetch_and_add(&sum->read_calls, disk.read_calls);
	__sync_fetch_and_add(&sum->write_calls, disk.write_calls);
}

/* The totals of a process after all its threads ended. */
static __always_inline struct disk disk_of_ended(struct task_struct *leader, bool one_thread)
{
	struct process process = process_of(leader);
	struct disk *sum = one_thread ? 0 : bpf_map_lookup_elem(&ended_threads, &process);
	struct disk disk = disk_of(leader);

	/* The verifier refuses one load that serves both pointers. */
	barrier_var(disk.read_bytes);
	barrier_var(disk.write_bytes);
	barrier_var(disk.syscall_read_bytes);
	barrier_var(disk.syscall_write_bytes);
	barrier_var(disk.read_calls);
	barrier_var(disk.write_calls);
	if (sum)
		disk = *sum;
	return disk;
}

static __always_inline void add_syscall_io(struct ebb_task_counters *counters, const struct disk *disk)
{
	counters->syscall_read_bytes += disk->syscall_read_bytes;
	counters->syscall_write_bytes += disk->syscall_write_bytes;
	counters->read_calls += disk->read_calls;
	counters->write_calls += disk->write_calls;
}

/*
 * Whether a released process may have an entry in ended_threads. The kernel has added
 * the bytes and calls of each thread and of its reaped children to those of the process.
 * If they are those of the leader, no other thread made an entry. The run time does not
 * prove that: the scheduler may not have counted that of a short thread.
 */
static __always_inline bool may_have_ended_threads(struct task_struct *leader, bool one_thread)
{
	struct signal_struct *signal = leader->signal;

	if (!one_thread)
		return 1;
	if (!bpf_core_field_exists(struct task_io_accounting, read_bytes))
		return 0;
	return (signal->ioac.read_bytes ^ leader->ioac.read_bytes) |
	       (signal->ioac.write_bytes ^ leader->ioac.write_bytes) |
	       (signal->ioac.syscr ^ leader->ioac.syscr) |
	       (signal->ioac.syscw ^ leader->ioac.syscw);
}

/* CPU time of the ended threads, and the exit code of the process. */
static __always_inline void fill_totals(struct ebb_exit *record, struct task_struct *leader, const struct disk *disk)
{
	struct signal_struct *signal = leader->signal;

	record->cpu_ns = signal->sum_sched_runtime;
	record->maxrss_pages = signal->maxrss;
	record->rss_pages = 0;
	record->hiwater_pages = 0;
	record->unused = 0;
	record->exit_code = signal->flags & SIGNAL_GROUP_EXIT ?
				    signal->group_exit_code :
				    leader->exit_code;
	record->read_bytes = disk->read_bytes;
	record->write_bytes = disk->write_bytes;
}

#endif
