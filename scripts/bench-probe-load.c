/*
 * The loads of scripts/bench-probe, as light as a program can be, so that what
 * is measured beside them is not them.
 *
 *   sleepers N          N processes that wait; prints their parent's id, ends on a signal
 *   execs RATE SECONDS  starts itself as `nothing`, RATE times a second
 *   forks RATE COUNT    COUNT children that end at once, by vfork, RATE a second (0: all it can)
 *   poll SECONDS        reads what the probe reads from procfs, every so many seconds, until
 *                       it is ended: of each task at each look, of sockets each minute
 *   nothing             ends
 *
 * All but poll print one line: what they did, and the CPU nanoseconds that they and
 * their children used.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static long long cpu_ns(void)
{
	long long sum = 0;
	int who[] = { RUSAGE_SELF, RUSAGE_CHILDREN };
	for (int i = 0; i < 2; i++) {
		struct rusage r;
		getrusage(who[i], &r);
		sum += (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000LL;
		sum += (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000LL;
	}
	return sum;
}

/* Waits until the n-th of `rate` a second is due. */
static void pace(double began, long n, long rate)
{
	double ahead = rate ? began + (double)n / rate - now() : 0;
	if (ahead > 0.001)
		usleep(ahead * 1e6);
}

static void sleepers(long count)
{
	for (long i = 0; i < count; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	printf("{\"sleepers\": %ld}\n", count);
	fflush(stdout);
	pause();
}

static char *self;

/* A new program, of no work. */
static pid_t exec_one(void)
{
	char *arguments[] = { self, "nothing", 0 };
	pid_t pid;
	return posix_spawn(&pid, self, 0, 0, arguments, environ) ? -1 : pid;
}

/* A process in its parent's memory, as posix_spawn and system begin theirs. */
static pid_t fork_one(void)
{
	pid_t pid = vfork();
	if (!pid)
		_exit(0);
	return pid;
}

/*
 * So many children, one after the other, or as many as there are in so many seconds. A
 * rate that one parent does not reach is shared by several.
 */
static void many(const char *what, long rate, long count, double seconds, pid_t (*one)(void))
{
	long parents = rate && rate < 500 ? 1 : 4;
	long *did = mmap(0, sizeof(*did), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double began = now();
	for (long parent = 0; parent < parents; parent++) {
		if (fork())
			continue;
		for (long n = 1; n <= count / parents && now() - began < seconds; n++) {
			pid_t pid = one();
			if (pid > 0 && waitpid(pid, 0, 0) == pid)
				__sync_fetch_and_add(did, 1);
			pace(began, n, rate / parents);
		}
		_exit(0);
	}
	while (wait(0) > 0)
		;
	printf("{\"%s\": %ld, \"seconds\": %.3f, \"cpu_ns\": %lld}\n", what, *did, now() - began, cpu_ns());
}

/* Without taking the text apart, which is more work than to read it once. */
static void take(int folder, const char *pid, const char *name, char *buffer, size_t size)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/%s", pid, name);
	int file = openat(folder, path, O_RDONLY);
	long got = file < 0 ? 0 : read(file, buffer, size - 1);
	if (file >= 0)
		close(file);
	buffer[got > 0 ? got : 0] = 0;
}

/* Calls `each` for every number in a folder. */
static void numbers(int folder, const char *name, void (*each)(int, const char *))
{
	int file = openat(folder, name, O_RDONLY | O_DIRECTORY);
	DIR *entries = file < 0 ? 0 : fdopendir(file);
	struct dirent *entry;
	while (entries && (entry = readdir(entries)))
		if (*entry->d_name >= '0' && *entry->d_name <= '9')
			each(dirfd(entries), entry->d_name);
	if (entries)
		closedir(entries);
}

static const char *leader = "";

/*
 * Run time and its delay, state and switches, and what it waits for: of that the name alone
 * (wchan) costs a tenth less, and tells too little. The threads beside it.
 */
static long poll_task(int folder, const char *tid)
{
	const char *names[] = { "schedstat", "stack", "status" };
	char buffer[4096];
	for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++)
		take(folder, tid, names[n], buffer, sizeof(buffer));
	const char *threads = strstr(buffer, "\nThreads:");
	return threads ? atol(threads + sizeof("\nThreads:") - 1) : 0;
}

static void poll_thread(int folder, const char *tid)
{
	if (strcmp(tid, leader))
		poll_task(folder, tid);
}

static void poll_process(int folder, const char *pid)
{
	const char *names[] = { "stat", "io", "cgroup" };
	char buffer[4096], tasks[300];
	for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++)
		take(folder, pid, names[n], buffer, sizeof(buffer));
	if (poll_task(folder, pid) < 2)
		return;
	leader = pid;
	snprintf(tasks, sizeof(tasks), "%s/task", pid);
	numbers(folder, tasks, poll_thread);
}

static void poll_file(int folder, const char *fd)
{
	char target[256];
	if (readlinkat(folder, fd, target, sizeof(target)) < 0)
		return; /* Closed meanwhile. */
}

static void poll_files(int folder, const char *pid)
{
	char files[300];
	snprintf(files, sizeof(files), "%s/fd", pid);
	numbers(folder, files, poll_file);
}

static void poll_procfs(long seconds)
{
	double began = now();
	for (long look = 1;; look++) {
		numbers(AT_FDCWD, "/proc", poll_process);
		if (look * seconds % 60 < seconds) {
			char buffer[65536];
			numbers(AT_FDCWD, "/proc", poll_files);
			take(AT_FDCWD, "/proc/net", "tcp", buffer, sizeof(buffer));
			take(AT_FDCWD, "/proc/net", "tcp6", buffer, sizeof(buffer));
		}
		while (now() < began + look * seconds)
			usleep((began + look * seconds - now()) * 1e6 + 1);
	}
}

int main(int argc, char **argv)
{
	self = argv[0];
	const char *what = argc > 1 ? argv[1] : "";
	long first = argc > 2 ? atol(argv[2]) : 0, second = argc > 3 ? atol(argv[3]) : 0;
	if (!strcmp(what, "sleepers"))
		sleepers(first);
	else if (!strcmp(what, "execs"))
		many(what, first, LONG_MAX, second, exec_one);
	else if (!strcmp(what, "forks"))
		many(what, first, second, DBL_MAX, fork_one);
	else if (!strcmp(what, "poll"))
		poll_procfs(first);
	else if (strcmp(what, "nothing"))
		return 2;
	return 0;
}
