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

struct rest {
	__u64 start_ns;
	__u64 cgroup_id;
	/* 0 of a task that runs or is ready to. */
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

static __always_inline struct rest rest_of(struct task_struct *task)
{
	__u32 flags = 0;
	struct rest rest = {
		.start_ns = task->start_boottime,
		.cgroup_id = cgroup_of(task->group_leader, &flags),
	};

	if (!(state_of(task) & (EBB_ON_CPU | EBB_RUNNABLE)))
		rest.switches = task->nvcsw + task->nivcsw;
	return rest;
}

/* A leader speaks for its process, to which other threads add. */
static __always_inline bool has_rested(struct task_struct *task, struct rest *now)
{
	__u32 slot = task->pid & (REMEMBERED - 1);
	struct rest *before = bpf_map_lookup_elem(&rests, &slot);

	if (!before || !now->switches || before->switches != now->switches ||
	    before->start_ns != now->start_ns || before->cgroup_id != now->cgroup_id)
		return 0;
	if (is_leader(task) && !had_one_thread(task, 0))
		return 0;
	return before->passes++ < MOST_RESTS;
}

static __always_inline void remember(struct task_struct *task, struct rest *now)
{
	__u32 slot = task->pid & (REMEMBERED - 1);

	bpf_map_update_elem(&rests, &slot, now, BPF_ANY);
}

#endif
