/*
 * The loads of scripts/bench-probe, as light as a program can be, so that what
 * is measured beside them is not them.
 *
 *   sleepers N          N processes that wait; prints their parent's id, ends on a signal
 *   execs RATE SECONDS  starts itself as `nothing`, RATE times a second
 *   forks RATE COUNT    forks COUNT children that end at once, RATE a second (0: all it can)
 *   poll TIMES          reads of every process what the probe's pass reads, from procfs
 *   nothing             ends
 *
 * Each prints one line: what it did, and the CPU nanoseconds that it and its
 * children used.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void done(const char *what, long count, double began)
{
	printf("{\"%s\": %ld, \"seconds\": %.3f, \"cpu_ns\": %lld}\n", what, count, now() - began, cpu_ns());
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

static void execs(const char *self, long rate, double seconds)
{
	char *arguments[] = { (char *)self, "nothing", 0 };
	double began = now();
	long count = 0;
	while (now() - began < seconds) {
		pid_t pid;
		if (!posix_spawn(&pid, self, 0, 0, arguments, environ))
			waitpid(pid, 0, 0);
		pace(began, ++count, rate);
	}
	done("execs", count, began);
}

static void forks(long rate, long count)
{
	double began = now();
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, 0, 0);
		pace(began, i + 1, rate);
	}
	done("forks", count, began);
}

static void take(int folder, const char *pid, const char *name)
{
	char path[64], buffer[4096];
	snprintf(path, sizeof(path), "%s/%s", pid, name);
	int file = openat(folder, path, O_RDONLY);
	if (file < 0)
		return;
	while (read(file, buffer, sizeof(buffer)) > 0)
		;
	close(file);
}

static void poll_procfs(long times)
{
	double began = now();
	long processes = 0;
	for (long i = 0; i < times; i++) {
		DIR *proc = opendir("/proc");
		struct dirent *entry;
		while (proc && (entry = readdir(proc))) {
			if (*entry->d_name < '0' || *entry->d_name > '9')
				continue;
			const char *names[] = { "stat", "io", "schedstat", "status", "cgroup", "wchan" };
			for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++)
				take(dirfd(proc), entry->d_name, names[n]);
			processes++;
		}
		closedir(proc);
	}
	done("processes", processes, began);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long first = argc > 2 ? atol(argv[2]) : 0, second = argc > 3 ? atol(argv[3]) : 0;
	if (!strcmp(what, "sleepers"))
		sleepers(first);
	else if (!strcmp(what, "execs"))
		execs(argv[0], first, second);
	else if (!strcmp(what, "forks"))
		forks(first, second);
	else if (!strcmp(what, "poll"))
		poll_procfs(first);
	else if (strcmp(what, "nothing"))
		return 2;
	return 0;
}
