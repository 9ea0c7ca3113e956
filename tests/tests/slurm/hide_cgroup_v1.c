/* Hides the lines of cgroup v1 in /proc/PID/cgroup from a program, for machines with both versions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int next_open(const char *path, int flags, int mode) {
    static int (*next)(const char *, int, ...);
    if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    return next(path, flags, mode);
}

static int is_cgroup_file(const char *path) {
    size_t length = strlen(path);
    return !strncmp(path, "/proc/", 6) && length > 7 && !strcmp(path + length - 7, "/cgroup");
}

/* A file with the lines of version 2 only. */
static int open_without_v1(const char *path) {
    static char text[65536];
    int in = next_open(path, O_RDONLY, 0);
    if (in < 0) return in;
    ssize_t length = read(in, text, sizeof text - 1);
    close(in);
    text[length > 0 ? length : 0] = 0;
    int out = memfd_create("cgroup", MFD_CLOEXEC);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (!strncmp(line, "0::", 3)) dprintf(out, "%s\n", line);
    lseek(out, 0, SEEK_SET);
    return out;
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return is_cgroup_file(path) ? open_without_v1(path) : next_open(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    static FILE *(*next)(const char *, const char *);
    if (!next) next = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return is_cgroup_file(path) ? fdopen(open_without_v1(path), mode) : next(path, mode);
}
