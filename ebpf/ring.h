/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The ring buffer to the user half, and the number of records that found no room in
 * it. event.h defines the records.
 */
#ifndef EBB_RING_H
#define EBB_RING_H

/*
 * Wakes the reader at this fill level, an eighth of the ring buffer. On a busy
 * machine the reader itself has to wait for a core.
 */
const volatile __u64 wake_bytes = 131072;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Records that found no room, by kind. EBB_EXIT includes ended threads that found none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EBB_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline void count_lost(__u32 kind)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &kind);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void *reserve(__u32 kind, __u64 size)
{
	void *record = bpf_ringbuf_reserve(&events, size, 0);

	if (!record)
		count_lost(kind);
	return record;
}

/*
 * The reader polls. It is woken early if the buffer fills, and again every 16 KB. A wake-up
 * takes longer than the rest of a program. If each record wakes a reader that waits for a
 * core, the programs take six times as long. Records are shorter than 512 bytes, so with
 * several cores that write too, a point is rarely missed.
 */
static __always_inline void submit(void *record)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	bool wakes = waiting >= wake_bytes && waiting % 16384 < 1024;

	bpf_ringbuf_submit(record, wakes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* Does not wake the reader. Each process that ends had a start, which does. */
static __always_inline void submit_later(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Wakes the reader at once, because it reads more of the process while that lives. */
static __always_inline void submit_now(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

#endif
