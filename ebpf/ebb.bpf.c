/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The kernel half of the probe: starts, programs and ends of processes, and the
 * state of every task. It uses tracepoints and iterators only, none on a hot path.
 * It reads no payload, no environment and no file contents.
 *
 * Each fork, exec and end is a record, so no process is too short to be observed.
 * Records that found no room in the ring buffer are counted.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>
#include "event.h"
#include "ring.h"
#include "task.h"
#include "namespaces.h"
#include "sock.h"
#include "idle_tasks.h"

/* Helpers that read kernel memory require a GPL-compatible license. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	if (!is_leader(child) || is_kernel_thread(child))
		return 0;
	struct ebb_head *record = reserve(EBB_FORK, sizeof(*record));
	if (!record)
		return 0;
	fill_head(record, EBB_FORK, child);
	submit(record);
	return 0;
}

/*
 * A Nextflow task starts as `bash -ue .command.run` in its work folder. In a container,
 * only `bash .command.run nxf_trace` may run, which measures the task. The arguments are
 * compared here and do not leave the kernel.
 */
static __always_inline bool runs_nextflow_task(struct task_struct *task, const char *program_name)
{
	static const char plain[] = ".command.run";
	static const char traced[] = ".command.run\0nxf_trace";
	char tail[sizeof(traced)] = {};
	unsigned long end = task->mm->arg_end;
	/* Bits in which they differ. A branch a byte costs the verifier a third of a second. */
	char from_plain = 0, from_traced = 0;

	/* Only bash, or the file itself; no other program costs a read. */
	if (program_name[0] != 'b' && program_name[0] != '.')
		return 0;
	/* The strings of the arguments are on the stack, so there is memory before them. */
	if (bpf_probe_read_user(tail, sizeof(tail), (void *)(end - sizeof(tail))))
		return 0;
	for (int i = 0; i < sizeof(plain); i++)
		from_plain |= tail[sizeof(traced) - sizeof(plain) + i] ^ plain[i];
	for (int i = 0; i < sizeof(traced); i++)
		from_traced |= tail[i] ^ traced[i];
	return !from_plain || !from_traced;
}

/*
 * A job of Snakemake starts as `python -m snakemake ...`. The user half reads its rule
 * from the other arguments. The arguments are compared here and do not leave the kernel.
 */
static __always_inline bool runs_snakemake(struct task_struct *task, const char *program_name)
{
	static const char wanted[] = "-m\0snakemake";
	char found[sizeof(wanted)] = {};
	char program[256];
	unsigned long first = task->mm->arg_start;

	/* Only python and pypy; no other program costs a read. */
	if (program_name[0] != 'p' || program_name[1] != 'y')
		return 0;
	/* The first argument is the program, whose path has any length. */
	long length = bpf_probe_read_user_str(program, sizeof(program), (void *)first);
	if (length <= 0 || bpf_probe_read_user(found, sizeof(found), (void *)(first + length)))
		return 0;
	for (int i = 0; i < sizeof(wanted); i++)
		if (found[i] != wanted[i])
			return 0;
	return 1;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *binary)
{
	struct ebb_exec *record = reserve(EBB_EXEC, sizeof(*record));
	if (!record)
		return 0;
	fill_head(&record->head, EBB_EXEC, task);
	record->head.flags |= own_namespaces(task);
	record->maxrss_pages = task->signal->maxrss;
	record->uid = task->cred->uid.val;
	record->unused = 0;
	record->work_parent[0] = 0;
	record->work_leaf[0] = 0;
	if (runs_nextflow_task(task, record->head.comm)) {
		struct dentry *folder = BPF_CORE_READ(task, fs, pwd.dentry);

		record->head.flags |= EBB_NEXTFLOW;
		bpf_probe_read_kernel_str(record->work_leaf, sizeof(record->work_leaf),
					  BPF_CORE_READ(folder, d_name.name));
		bpf_probe_read_kernel_str(record->work_parent, sizeof(record->work_parent),
					  BPF_CORE_READ(folder, d_parent, d_name.name));
	}
	if (runs_snakemake(task, record->head.comm))
		record->head.flags |= EBB_SNAKEMAKE;
	if (record->head.flags & (EBB_NEXTFLOW | EBB_SNAKEMAKE))
		submit_now(record);
	else
		submit(record);
	return 0;
}

/*
 * Two threads that end at the same time can both be the last one. The reader keeps
 * the greater value of each total.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	if (is_kernel_thread(task))
		return 0;
	struct task_struct *leader = task->group_leader;
	keep_disk_of_ended(task, leader);
	if (task->signal->live.counter != 0)
		return 0;
	struct ebb_exit *record = reserve(EBB_EXIT, sizeof(*record));
	if (!record)
		return 0;
	fill_head(&record->head, EBB_EXIT, leader);
	record->head.at_ns = bpf_ktime_get_boot_ns();
	struct disk disk = disk_of_ended(leader, had_one_thread(leader, 0));

	fill_totals(record, leader, &disk);
	record->cpu_ns += task->se.sum_exec_runtime;

	/* Already released up to Linux 6.12; still present from 6.17 on. */
	struct mm_struct *mm = task->mm;
	if (mm) {
		struct rss rss = {};

		read_rss(mm, &rss);
		record->rss_pages = rss.file + rss.anon + rss.shmem;
		record->hiwater_pages = mm->hiwater_rss;
		record->head.flags |= EBB_HAS_MM;
	}
	submit_later(record);
	return 0;
}

/*
 * The scheduler adds the last CPU time slice of a task after the exit tracepoint.
 * This slice is most of the CPU time of a short process. Only here are the totals
 * complete.
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	if (!is_leader(task) || is_kernel_thread(task))
		return 0;
	bool one_thread = had_one_thread(task, task->se.sum_exec_runtime);
	struct ebb_reap *record = reserve(EBB_REAP, sizeof(*record));
	if (!record)
		goto forget;
	struct signal_struct *signal = task->signal;
	struct disk disk = disk_of_ended(task, one_thread);

	record->kind = EBB_REAP;
	record->flags = bpf_core_field_exists(struct task_io_accounting, read_bytes) ? EBB_HAS_IO : 0;
	record->start_ns = task->start_boottime;
	record->tgid = task->tgid;
	record->unused = 0;
	record->cpu_ns = signal->sum_sched_runtime;
	record->read_bytes = disk.read_bytes;
	record->write_bytes = disk.write_bytes;
	record->maxrss_pages = signal->maxrss;
	__builtin_memset(&record->counters, 0, sizeof(record->counters));
	add_ended(&record->counters, signal);
	add_syscall_io(&record->counters, &disk);
	fill_delays(&record->counters, &record->flags, task);
	submit(record);
forget:
	/* Also without a record, or the entry would stay. */
	if (may_have_ended_threads(task, one_thread)) {
		struct process process = process_of(task);

		bpf_map_delete_elem(&ended_threads, &process);
	}
	return 0;
}

/*
 * A raw tracepoint needs neither tracefs nor perf events, which Debian allows to
 * CAP_SYS_ADMIN only (kernel.perf_event_paranoid = 3). Its first argument is the PID
 * of the victim, or its task in kernels from 6.10 and in those with this change;
 * no PID is in the range of kernel addresses. The current task is the one that
 * requested memory, not the victim.
 */
SEC("raw_tp/mark_victim")
int BPF_PROG(on_oom, __u64 victim)
{
	const __u64 first_address = 1ULL << 32;
	struct ebb_head *record = reserve(EBB_OOM, sizeof(*record));
	if (!record)
		return 0;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = EBB_OOM;
	record->at_ns = bpf_ktime_get_boot_ns();
	if (victim < first_address)
		record->tgid = victim;
	else
		record->tgid = BPF_CORE_READ((struct task_struct *)victim, tgid);
	submit(record);
	return 0;
}

/* The path is read here because the cgroup of a short container is soon removed. */
SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(on_cgroup, struct cgroup *cgroup, const char *path)
{
	if (cgroup->root->hierarchy_id != memory_hierarchy)
		return 0;
	struct ebb_cgroup *record = reserve(EBB_CGROUP, sizeof(*record));
	if (!record)
		return 0;
	__builtin_memset(&record->head, 0, sizeof(record->head));
	record->head.kind = EBB_CGROUP;
	record->head.flags = EBB_HAS_CGROUP;
	record->head.at_ns = bpf_ktime_get_boot_ns();
	record->head.cgroup_id = cgroup->kn->id;
	record->path[0] = 0;
	bpf_probe_read_kernel_str(record->path, sizeof(record->path), path);
	submit(record);
	return 0;
}

static __always_inline void fill_ended_threads(struct ebb_task *record, struct task_struct *leader)
{
	struct signal_struct *signal = leader->signal;
	struct process process = process_of(leader);
	struct disk *sum = bpf_map_lookup_elem(&ended_threads, &process);

	record->ended_cpu_ns = signal->sum_sched_runtime;
	if (sum) {
		record->ended_read_bytes = sum->read_bytes;
		record->ended_write_bytes = sum->write_bytes;
		add_syscall_io(&record->counters, sum);
	}
	record->maxrss_pages = signal->maxrss;
}

static __always_inline void fill_memory(struct ebb_task *record, struct mm_struct *mm)
{
	struct rss rss = {};

	read_rss(mm, &rss);
	record->file_pages = rss.file;
	record->anon_pages = rss.anon;
	record->shmem_pages = rss.shmem;
	record->hiwater_pages = mm->hiwater_rss;
	record->head.flags |= EBB_HAS_MM;
}

static __always_inline void write_task(struct seq_file *seq, struct task_struct *task,
				       struct idle_task *idle, bool with_stack)
{
	__u64 switches = switches_of(task);
	struct ebb_task record = {};

	fill_head(&record.head, 0, task->group_leader);
	record.tid = task->pid;
	record.uid = task->cred->uid.val;
	record.cpu_ns = task->se.sum_exec_runtime;
	/* on_exit adds the bytes of an ending thread to ended_threads. */
	if (!(task->flags & PF_EXITING)) {
		struct disk disk = disk_of(task);

		record.read_bytes = disk.read_bytes;
		record.write_bytes = disk.write_bytes;
		add_syscall_io(&record.counters, &disk);
	}
	if (is_kernel_thread(task))
		record.head.flags |= EBB_KTHREAD;
	if (task->exit_state)
		record.head.flags |= EBB_ZOMBIE;
	struct mm_struct *mm = task->mm;

	if (is_leader(task)) {
		fill_ended_threads(&record, task);
		add_ended(&record.counters, task->signal);
	} else {
		record.head.flags |= EBB_THREAD;
	}
	if (!(record.head.flags & (EBB_KTHREAD | EBB_ZOMBIE))) {
		__u32 state = state_of(task);

		record.head.flags |= state;
		add_own(&record.counters, task);
		record.head.flags |= own_namespaces(task);
		fill_delays(&record.counters, &record.head.flags, task);
		if (with_stack && !(state & (EBB_ON_CPU | EBB_RUNNABLE)) &&
		    bpf_get_task_stack(task, record.stack, sizeof(record.stack), 0) > 0)
			record.head.flags |= EBB_HAS_STACK;
	}
	/* A leader that ended before its threads has no address space. */
	if (mm && !(record.head.flags & EBB_KTHREAD) &&
	    (is_leader(task) || !task->group_leader->mm))
		fill_memory(&record, mm);
	/* A task whose record found no room is read again at the next scan. */
	if (!bpf_seq_write(seq, &record, sizeof(record)))
		remember(task, idle, switches);
}

/*
 * Some kernels do not allow programs that read stacks. Then the variant without
 * stacks is loaded, and the wait reason of a task is unknown.
 */
static __always_inline int write_task_or_unchanged(struct bpf_iter__task *ctx, bool with_stack)
{
	struct task_struct *task = ctx->task;
	struct idle_task *idle = task ? idle_task_of(task) : 0;

	if (!task || !idle)
		return 0;
	if (task->pid == KTHREADD && !node_namespaces.mount)
		learn_node_namespaces(task);
	if (is_unchanged(task, idle)) {
		struct ebb_unchanged unchanged = { .kind = EBB_UNCHANGED, .tid = task->pid };

		bpf_seq_write(ctx->meta->seq, &unchanged, sizeof(unchanged));
	} else {
		write_task(ctx->meta->seq, task, idle, with_stack);
	}
	return 0;
}

SEC("iter/task")
int each_task(struct bpf_iter__task *ctx)
{
	return write_task_or_unchanged(ctx, 1);
}

SEC("iter/task")
int each_task_plain(struct bpf_iter__task *ctx)
{
	return write_task_or_unchanged(ctx, 0);
}

/* Addresses that the user half wants to resolve; 0 for none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} addresses SEC(".maps");

/*
 * The kernel prints the symbols of addresses, so the probe needs no permission to
 * read /proc/kallsyms. The iterator runs once for each task and prints one address
 * each time; it reads nothing of the task.
 */
SEC("iter/task")
int name_addresses(struct bpf_iter__task *ctx)
{
	__u32 number = ctx->meta->seq_num;
	__u64 *address = bpf_map_lookup_elem(&addresses, &number);

	if (ctx->task && address && *address)
		BPF_SEQ_PRINTF(ctx->meta->seq, "%llx %pB\n", *address, *address);
	return 0;
}
