/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The way to the user half: one ring for all records, and a count of those that
 * found no room in it. What the records hold stands in event.h.
 */
#ifndef EBB_RING_H
#define EBB_RING_H

/*
 * Wake the reader when so much is waiting: an eighth of the ring, since on a busy
 * machine it waits for a core itself.
 */
const volatile __u64 wake_bytes = 131072;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* By kind: records that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EBB_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void *reserve(__u32 kind, __u64 size)
{
	void *record = bpf_ringbuf_reserve(&events, size, 0);
	if (record)
		return record;
	__u64 *count = bpf_map_lookup_elem(&lost, &kind);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}

/* The reader polls; it is woken early only when the buffer fills. */
static __always_inline void submit(void *record)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	bpf_ringbuf_submit(record, waiting >= wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
