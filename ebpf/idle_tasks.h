/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Detects tasks that have waited since a scan reported them. Most tasks of a node
 * have, and their values are unchanged. A task that runs switches when it waits
 * again. So a task that waits after the same number of switches has not run.
 */
#ifndef EBB_IDLE_TASKS_H
#define EBB_IDLE_TASKS_H

#define IDLE_TASK_SLOTS 32768
/*
 * Scans until a waiting task is reported in full again. The kernel can reclaim
 * memory of a waiting task, so its memory is out of date by at most this.
 */
#define MAX_UNCHANGED_SCANS 30
/* A waiting task can be moved to another cgroup; this is how often that is checked. */
#define SCANS_PER_CGROUP_CHECK 3

struct idle_task {
	__u64 start_ns;
	__u64 cgroup_id;
	/* 0 if the task is reported in full at each scan. */
	__u64 switches;
	__u64 scans;
};

/* By the low bits of the task id. Two tasks in one slot are both reported in full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IDLE_TASK_SLOTS);
	__type(key, __u32);
	__type(value, struct idle_task);
} idle_tasks SEC(".maps");

static __always_inline struct idle_task *idle_task_of(struct task_struct *task)
{
	__u32 slot = task->pid & (IDLE_TASK_SLOTS - 1);

	return bpf_map_lookup_elem(&idle_tasks, &slot);
}

static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
	__u32 flags = 0;

	return cgroup_of(task->group_leader, &flags);
}

/*
 * Runs for each task at each scan, so it reads little: an idle task is mostly not in
 * the CPU cache. A move to another cgroup is noticed a few scans later.
 */
static __always_inline bool is_unchanged(struct task_struct *task, struct idle_task *idle)
{
	if (!idle->switches || idle->switches != task->nvcsw + task->nivcsw ||
	    idle->start_ns != task->start_boottime ||
	    state_of(task) & (EBB_ON_CPU | EBB_RUNNABLE))
		return 0;
	if (idle->scans % SCANS_PER_CGROUP_CHECK == 0 && idle->cgroup_id != cgroup_id_of(task))
		return 0;
	return idle->scans++ < MAX_UNCHANGED_SCANS;
}

/*
 * The number of switches that later shows whether the task has run. It is read
 * before the other values. The record of a leader contains totals of its process, to
 * which other threads add. So a leader with other threads is reported in full.
 */
static __always_inline __u64 switches_of(struct task_struct *task)
{
	if (state_of(task) & (EBB_ON_CPU | EBB_RUNNABLE) || task->exit_state ||
	    (is_leader(task) && !had_one_thread(task, 0)))
		return 0;
	return task->nvcsw + task->nivcsw;
}

/* The first scan reports all tasks; their next full reports are spread over scans. */
static __always_inline void remember(struct task_struct *task, struct idle_task *idle, __u64 switches)
{
	bool known = idle->start_ns == task->start_boottime;

	idle->scans = known ? 0 : (__u32)task->pid % MAX_UNCHANGED_SCANS;
	idle->start_ns = task->start_boottime;
	idle->cgroup_id = cgroup_id_of(task);
	idle->switches = switches;
}

#endif
