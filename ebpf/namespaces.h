/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Finds the namespaces in which a task differs from the node. Container engines
 * without a cgroup for each container, such as Apptainer, still create namespaces.
 */
#ifndef EBB_NAMESPACES_H
#define EBB_NAMESPACES_H

/* PID of the parent of kernel threads, which always has the namespaces of the node. */
#define KTHREADD 2

/*
 * The namespace numbers of the node. The first scan sets them, unless the probe runs
 * in a PID namespace without kernel threads. 0 if the kernel lacks this kind.
 */
static volatile struct {
	/* Address of the set of all these namespaces, which most tasks share. */
	__u64 set;
	__u32 mount;
	__u32 network;
	__u32 uts;
	__u32 ipc;
	__u32 cgroup;
} node_namespaces;

#define NUMBER(proxy, member, type)							\
	(bpf_core_field_exists(struct type, ns.inum) ? proxy->member->ns.inum : 0)

static __always_inline void learn_node_namespaces(struct task_struct *task)
{
	struct nsproxy *proxy = task->nsproxy;

	node_namespaces.network = NUMBER(proxy, net_ns, net);
	node_namespaces.uts = NUMBER(proxy, uts_ns, uts_namespace);
	node_namespaces.ipc = NUMBER(proxy, ipc_ns, ipc_namespace);
	node_namespaces.cgroup = NUMBER(proxy, cgroup_ns, cgroup_namespace);
	node_namespaces.set = (__u64)proxy;
	node_namespaces.mount = NUMBER(proxy, mnt_ns, mnt_namespace);
}

/* Flags for a record. A task that is ending has no namespaces any more. */
static __always_inline __u32 own_namespaces(struct task_struct *task)
{
	struct nsproxy *proxy = task->nsproxy;
	__u32 bits = 0;

	if (!node_namespaces.mount || !proxy)
		return 0;
	bits |= task->thread_pid->level ? 2 : 0;
	bits |= task->cred->user_ns->level ? 8 : 0;
	if ((__u64)proxy != node_namespaces.set) {
		bits |= NUMBER(proxy, mnt_ns, mnt_namespace) != node_namespaces.mount ? 1 : 0;
		bits |= NUMBER(proxy, net_ns, net) != node_namespaces.network ? 4 : 0;
		bits |= NUMBER(proxy, uts_ns, uts_namespace) != node_namespaces.uts ? 16 : 0;
		bits |= NUMBER(proxy, ipc_ns, ipc_namespace) != node_namespaces.ipc ? 32 : 0;
		bits |= NUMBER(proxy, cgroup_ns, cgroup_namespace) != node_namespaces.cgroup ? 64 : 0;
	}
	return EBB_HAS_NAMESPACES | bits * EBB_OWN_NAMESPACE;
}

#endif
