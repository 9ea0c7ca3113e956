/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * In which namespaces a task is apart from the node: an engine that makes no cgroup
 * of its own, as Apptainer, still makes these.
 */
#ifndef EBB_APART_H
#define EBB_APART_H

/* The parent of the kernel's threads, which never leaves the node's namespaces. */
#define KTHREADD 2

/*
 * The numbers of the node's own: the first pass finds them, unless the probe is itself
 * in a container and does not see that thread. 0 for a kind that the kernel lacks.
 */
static volatile struct {
	__u32 mount;
	__u32 network;
	__u32 uts;
	__u32 ipc;
	__u32 cgroup;
} of_node;

#define NUMBER(proxy, member, type)							\
	(bpf_core_field_exists(struct type, ns.inum) ? proxy->member->ns.inum : 0)

static __always_inline void learn_of_node(struct task_struct *task)
{
	struct nsproxy *proxy = task->nsproxy;

	of_node.network = NUMBER(proxy, net_ns, net);
	of_node.uts = NUMBER(proxy, uts_ns, uts_namespace);
	of_node.ipc = NUMBER(proxy, ipc_ns, ipc_namespace);
	of_node.cgroup = NUMBER(proxy, cgroup_ns, cgroup_namespace);
	of_node.mount = NUMBER(proxy, mnt_ns, mnt_namespace);
}

/* As flags; a task that is ending has left all. */
static __always_inline __u32 apart(struct task_struct *task)
{
	struct nsproxy *proxy = task->nsproxy;
	__u32 bits = 0;

	if (!of_node.mount || !proxy)
		return 0;
	bits |= NUMBER(proxy, mnt_ns, mnt_namespace) != of_node.mount ? 1 : 0;
	bits |= task->thread_pid->level ? 2 : 0;
	bits |= NUMBER(proxy, net_ns, net) != of_node.network ? 4 : 0;
	bits |= task->cred->user_ns->level ? 8 : 0;
	bits |= NUMBER(proxy, uts_ns, uts_namespace) != of_node.uts ? 16 : 0;
	bits |= NUMBER(proxy, ipc_ns, ipc_namespace) != of_node.ipc ? 32 : 0;
	bits |= NUMBER(proxy, cgroup_ns, cgroup_namespace) != of_node.cgroup ? 64 : 0;
	return EBB_HAS_APART | bits * EBB_APART;
}

#endif
