/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which tasks have waited since a pass told them: most of a node's have, and of
 * them there is nothing to read. A task that runs switches when it waits again, so
 * one that waits after as many switches as before has not run.
 */
#ifndef EBB_REST_H
#define EBB_REST_H

#define REMEMBERED 32768
/*
 * Passes until a task that waits is told whole: what others can take from it, which
 * is memory, is known by then.
 */
#define MOST_RESTS 30
/* Passes from one look at a waiting task's cgroup to the next. */
#define MOVED_EVERY 3

struct rest {
	__u64 start_ns;
	__u64 cgroup_id;
	/* 0 of a task that is told whole each time. */
	__u64 switches;
	__u64 passes;
};

/* By the low bits of a task's number: of two at one place both are told whole. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REMEMBERED);
	__type(key, __u32);
	__type(value, struct rest);
} rests SEC(".maps");

static __always_inline struct rest *rest_of(struct task_struct *task)
{
	__u32 slot = task->pid & (REMEMBERED - 1);

	return bpf_map_lookup_elem(&rests, &slot);
}

static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
	__u32 flags = 0;

	return cgroup_of(task->group_leader, &flags);
}

/*
 * Asked of each task at each pass, so it reads little of it: what rests is mostly not
 * in the processor's cache. That somebody moved it is seen a few passes later.
 */
static __always_inline bool has_rested(struct task_struct *task, struct rest *rest)
{
	if (!rest->switches || rest->switches != task->nvcsw + task->nivcsw ||
	    rest->start_ns != task->start_boottime ||
	    state_of(task) & (EBB_ON_CPU | EBB_RUNNABLE))
		return 0;
	if (rest->passes % MOVED_EVERY == 0 && rest->cgroup_id != cgroup_id_of(task))
		return 0;
	return rest->passes++ < MOST_RESTS;
}

/*
 * What tells later that a task has not run since: asked before the rest of it is
 * read. A leader speaks for its process, to which other threads add; one without
 * others gets none while it waits.
 */
static __always_inline __u64 switches_of(struct task_struct *task)
{
	if (state_of(task) & (EBB_ON_CPU | EBB_RUNNABLE) || task->exit_state ||
	    (is_leader(task) && !had_one_thread(task, 0)))
		return 0;
	return task->nvcsw + task->nivcsw;
}

/* Those that the first pass tells together are not all told again in one. */
static __always_inline void remember(struct task_struct *task, struct rest *rest, __u64 switches)
{
	bool known = rest->start_ns == task->start_boottime;

	rest->passes = known ? 0 : (__u32)task->pid % MOST_RESTS;
	rest->start_ns = task->start_boottime;
	rest->cgroup_id = cgroup_id_of(task);
	rest->switches = switches;
}

#endif
