/* SPDX-License-Identifier: MIT
 *
 * A quota says how much time of all cores a group of processes may take in a period:
 * version 2 keeps both in `cpu.max`, version 1 in `cpu.cfs_quota_us` and
 * `cpu.cfs_period_us`. Each group around the process's own may have one; the smallest
 * counts. Workers that spin would use up a fraction of a core for nothing: fractions
 * are left out.
 *
 * Sources: Linux, Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst;
 * proc(5), cgroups(7). */
#define _GNU_SOURCE
#include "base/cores.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static int32_t
least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t
cores_of(int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0 || quota / period >= INT32_MAX) {
        return INT32_MAX;
    }
    return quota < period ? 1 : (int32_t)(quota / period);
}

/* The first `count` whole numbers of a file; false where there are fewer ("max"). */
static bool
read_numbers(const char *path, int64_t *out, int count)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    int found = 0;
    while (found < count && fscanf(file, "%" SCNd64, &out[found]) == 1) {
        found++;
    }
    fclose(file);
    return found == count;
}

static int32_t
quota_of_group(const char *folder, bool is_v2)
{
    char path[PATH_BYTES + 32];
    int64_t numbers[2];
    bool found;
    if (is_v2) {
        snprintf(path, sizeof(path), "%s/cpu.max", folder);
        found = read_numbers(path, numbers, 2);
    } else {
        snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
        found = read_numbers(path, &numbers[0], 1);
        snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
        found = found && read_numbers(path, &numbers[1], 1);
    }
    return found ? cores_of(numbers[0], numbers[1]) : INT32_MAX;
}

/* The group `path` below `mount` and all groups around it. A container may see another
 * path than its mount has: what is not there says nothing. */
static int32_t
quota_of_groups(const char *root, const char *mount, const char *path, bool is_v2)
{
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof(folder), "%s%s%s", root, mount, path);
    size_t shortest = strlen(root) + strlen(mount);
    int32_t quota = INT32_MAX;
    if (length < 0 || (size_t)length >= sizeof(folder)) {
        return quota;
    }
    for (;;) {
        quota = least(quota, quota_of_group(folder, is_v2));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < shortest) {
            return quota;
        }
        *slash = '\0';
    }
}

/* Whether a list such as "cpu,cpuacct" has `cpu`. */
static bool
has_cpu_controller(const char *list)
{
    char padded[256];
    snprintf(padded, sizeof(padded), ",%s,", list);
    return strstr(padded, ",cpu,") != NULL;
}

int32_t
ipu_cores_quota(const char *root)
{
    char line[PATH_BYTES];
    int32_t quota = INT32_MAX;
    snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    if (file == NULL) {
        return quota;
    }
    while (fgets(line, sizeof(line), file) != NULL) { /* number:controllers:path */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (path == NULL) {
            continue;
        }
        controllers++;
        *path++ = '\0';
        if (controllers[0] == '\0') {
            quota = least(quota, quota_of_groups(root, "/sys/fs/cgroup", path, true));
            quota = least(quota,
                          quota_of_groups(root, "/sys/fs/cgroup/unified", path, true));
        } else if (has_cpu_controller(controllers)) {
            quota =
                least(quota, quota_of_groups(root, "/sys/fs/cgroup/cpu", path, false));
            quota = least(quota, quota_of_groups(root, "/sys/fs/cgroup/cpu,cpuacct",
                                                 path, false));
        }
    }
    fclose(file);
    return quota;
}

int32_t
ipu_cores_available(const char *root)
{
    int32_t cores = 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        cores = (int32_t)CPU_COUNT(&set);
    }
    if (cores < 1) { /* a mask of more than 1,024 cores does not fit the set */
        cores = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    }
    cores = least(cores, ipu_cores_quota(root));
    return cores < 1 ? 1 : cores;
}

void
ipu_cores_bind(int32_t number)
{
    cpu_set_t all;
    if (sched_getaffinity(getpid(), sizeof(all), &all) != 0 || CPU_COUNT(&all) < 1) {
        return;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    int32_t left = number < 0 ? -1 : number % CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE && left >= 0; cpu++) {
        if (CPU_ISSET(cpu, &all) && left-- == 0) {
            CPU_SET(cpu, &one);
        }
    }
    (void)sched_setaffinity(0, sizeof(one), number < 0 ? &all : &one);
}

int32_t
ipu_cores_current(void)
{
    return (int32_t)sched_getcpu();
}

_Static_assert(sizeof(ipu_cores) == sizeof(cpu_set_t), "a set of 1,024 cores");

bool
ipu_cores_leave(pthread_t thread, int32_t core, int32_t threads, ipu_cores *before)
{
    cpu_set_t set;
    if (pthread_getaffinity_np(thread, sizeof(set), &set) != 0 ||
        CPU_COUNT(&set) < 2 || CPU_COUNT(&set) < threads) {
        return false;
    }
    memcpy(before, &set, sizeof(set));
    CPU_CLR((size_t)core, &set);
    return pthread_setaffinity_np(thread, sizeof(set), &set) == 0;
}

void
ipu_cores_return(const ipu_cores *before)
{
    cpu_set_t set;
    memcpy(&set, before, sizeof(set));
    (void)sched_setaffinity(0, sizeof(set), &set);
}
