/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCP sockets: their process, their ports and their traffic. Only counters, ports and
 * the kind of the peer's address leave the kernel, no content and no address.
 * Tracepoints are at the start and the end of a connection, not at packets.
 */
#ifndef EBB_SOCK_H
#define EBB_SOCK_H

/* The kernel address of a socket identifies it while it exists. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct process);
} owners SEC(".maps");

static __always_inline bool is_loopback_v4(__be32 address)
{
	return (address & 0xff) == 127;
}

/* Whether both ends are on this machine; such traffic does not use the network. */
static __always_inline bool is_loopback(struct sock *sk)
{
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET) {
		__be32 to = BPF_CORE_READ(sk, __sk_common.skc_daddr);

		return is_loopback_v4(to) || to == BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	}
	struct in6_addr to = BPF_CORE_READ(sk, __sk_common.skc_v6_daddr);
	struct in6_addr from = BPF_CORE_READ(sk, __sk_common.skc_v6_rcv_saddr);
	__u32 *word = to.in6_u.u6_addr32, *own = from.in6_u.u6_addr32;

	if (word[0] == own[0] && word[1] == own[1] && word[2] == own[2] && word[3] == own[3])
		return 1;
	return !word[0] && !word[1] && word[2] == bpf_htonl(0xffff) && is_loopback_v4(word[3]);
}

/* Sources: RFC 1918, RFC 3927 and RFC 6598. */
static __always_inline __u32 scope_v4(__be32 address)
{
	__u32 to = bpf_ntohl(address);

	if (to >> 16 == 0xa9fe)
		return EBB_LINK_LOCAL;
	if (to >> 24 == 10 || to >> 20 == 0xac1 || to >> 16 == 0xc0a8 || to >> 22 == 0x191)
		return EBB_PRIVATE;
	return EBB_PUBLIC;
}

/* Sources: RFC 4291 and RFC 4193. */
static __always_inline __u32 scope_of_peer(struct sock *sk)
{
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET)
		return scope_v4(BPF_CORE_READ(sk, __sk_common.skc_daddr));
	struct in6_addr to = BPF_CORE_READ(sk, __sk_common.skc_v6_daddr);
	__u32 *word = to.in6_u.u6_addr32;
	__u32 first = bpf_ntohl(word[0]);

	if (!word[0] && !word[1] && word[2] == bpf_htonl(0xffff))
		return scope_v4(word[3]);
	if (first >> 22 == 0xfe80 >> 6)
		return EBB_LINK_LOCAL;
	return first >> 25 == 0xfc >> 1 ? EBB_PRIVATE : EBB_PUBLIC;
}

static __always_inline void fill_socket(struct ebb_socket *record, struct sock *sk)
{
	struct tcp_sock *tcp = (void *)sk;

	record->socket = (__u64)sk;
	record->received_bytes = BPF_CORE_READ(tcp, bytes_received);
	record->sent_bytes = BPF_CORE_READ(tcp, bytes_sent) - BPF_CORE_READ(tcp, bytes_retrans);
	record->retransmits = BPF_CORE_READ(tcp, total_retrans);
	record->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	/* The other field for the own port, skc_num, is 0 when a socket ends. */
	record->own_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	record->peer_scope = scope_of_peer(sk);
}

/* The cgroup in which the socket was created; only with cgroup v2. */
static __always_inline __u64 cgroup_of_socket(struct sock *sk, __u32 *flags)
{
	if (memory_hierarchy)
		return 0;
	__u64 id = 0;

	if (bpf_core_field_exists(struct sock_cgroup_data, cgroup)) {
		id = BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	} else {
		/* Linux 5.10: a pointer unless the lowest bit is set. */
		struct sock___old *old = (void *)sk;
		__u64 value = BPF_CORE_READ(old, sk_cgrp_data.val);

		if (!(value & 1))
			id = BPF_CORE_READ((struct cgroup *)value, kn, id);
	}
	if (id)
		*flags |= EBB_HAS_CGROUP;
	return id;
}

/*
 * In these state changes the current task is the process of the socket: it connects
 * or closes. Other changes can happen in the context of any task.
 */
static __always_inline bool is_in_own_context(int state)
{
	return state == TCP_SYN_SENT || state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_socket_state, struct sock *sk, int old_state, int state)
{
	if (!is_in_own_context(state))
		return 0;
	struct task_struct *task = (void *)bpf_get_current_task();

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return 0;
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct process owner = {
		.tgid = BPF_CORE_READ(leader, tgid),
		.start_ns = BPF_CORE_READ(leader, start_boottime),
	};
	__u64 key = (__u64)sk;

	bpf_map_update_elem(&owners, &key, &owner, BPF_ANY);
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(on_socket_end, struct sock *sk)
{
	__u64 key = (__u64)sk;
	struct process *owner = bpf_map_lookup_elem(&owners, &key);
	struct ebb_socket totals = {};

	fill_socket(&totals, sk);
	if (!totals.received_bytes && !totals.sent_bytes && !totals.retransmits)
		goto forget;
	struct ebb_socket *record = reserve(EBB_SOCKET, sizeof(*record));
	if (!record)
		goto forget;
	__builtin_memset(record, 0, sizeof(*record));
	record->head.kind = EBB_SOCKET;
	if (owner) {
		record->head.tgid = owner->tgid;
		record->head.start_ns = owner->start_ns;
	}
	record->head.cgroup_id = cgroup_of_socket(sk, &record->head.flags);
	if (is_loopback(sk))
		record->head.flags |= EBB_LOOPBACK;
	record->socket = totals.socket;
	record->received_bytes = totals.received_bytes;
	record->sent_bytes = totals.sent_bytes;
	record->retransmits = totals.retransmits;
	record->peer_port = totals.peer_port;
	record->own_port = totals.own_port;
	record->peer_scope = totals.peer_scope;
	submit(record);
forget:
	if (owner)
		bpf_map_delete_elem(&owners, &key);
	return 0;
}

/*
 * The newest list that contains a socket. A process can have a socket under a million
 * numbers, and so fill a list.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} listed SEC(".maps");

/* Lists the open sockets with the first process of each, except those of loopback. */
SEC("iter/task_file")
int each_socket(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	if (!task || !file)
		return 0;
	struct socket *socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	struct sock *sk = socket->sk;
	if (!sk || sk->sk_protocol != IPPROTO_TCP || sk->sk_type != SOCK_STREAM)
		return 0;
	__u16 family = sk->__sk_common.skc_family;
	__u8 state = sk->__sk_common.skc_state;

	if ((family != AF_INET && family != AF_INET6) || state == TCP_LISTEN || state == TCP_CLOSE)
		return 0;
	__u64 key = (__u64)sk, list = ctx->meta->session_id;
	__u64 *newest = bpf_map_lookup_elem(&listed, &key);

	if ((newest && *newest == list) || is_loopback(sk))
		return 0;
	struct ebb_socket record = {};

	record.head.kind = EBB_SOCKET;
	record.head.tgid = task->tgid;
	record.head.start_ns = task->group_leader->start_boottime;
	fill_socket(&record, sk);
	/* A record that found no room is written again, by the next read of the same list. */
	if (!bpf_seq_write(ctx->meta->seq, &record, sizeof(record)))
		bpf_map_update_elem(&listed, &key, &list, BPF_ANY);
	return 0;
}

/*
 * Before Linux 5.11 a program cannot get the socket of a file. This lists sockets of
 * the probe's own network namespace whose process connected. An accepted socket is
 * counted when it is closed, because only then its process is known.
 */
SEC("iter/tcp")
int each_connection(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = (void *)ctx->sk_common;

	if (!sk)
		return 0;
	__u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);

	/* The first two states have no full struct sock. */
	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV || state == TCP_LISTEN ||
	    state == TCP_CLOSE)
		return 0;
	__u64 key = (__u64)sk;
	struct process *owner = bpf_map_lookup_elem(&owners, &key);
	struct ebb_socket record = {};

	if (!owner)
		return 0;
	record.head.kind = EBB_SOCKET;
	record.head.tgid = owner->tgid;
	record.head.start_ns = owner->start_ns;
	if (is_loopback(sk))
		record.head.flags |= EBB_LOOPBACK;
	fill_socket(&record, sk);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

#endif
