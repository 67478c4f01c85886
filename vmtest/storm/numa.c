/* Tests the nodes of memory and the processors of helpers on a machine with several nodes. move_pages(2) reports the
 * node of each page. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "storm.h"

enum { BIND = 2, INTERLEAVE = 3, PREFERRED = 1, DEFAULT = 0 };
#define MOST_NODES 8
#define LENGTH (24UL << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int failed, nodes;
static cpu_set_t of_node[MOST_NODES], inherited;

static void must(int good, const char *what, int node) {
    if (!good) {
        printf("numa: %s, node %d (%s)\n", what, node, strerrorname_np(errno));
        failed = 1;
    }
}

static void read_nodes(void) {
    for (; nodes < MOST_NODES; nodes++) {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", nodes);
        FILE *file = fopen(path, "re");
        if (!file)
            return;
        CPU_ZERO(&of_node[nodes]);
        if (fgets(text, sizeof text, file))
            for (char *range = strtok(text, ",\n"); range; range = strtok(NULL, ",\n")) {
                int first, last;
                int count = sscanf(range, "%d-%d", &first, &last);
                for (int cpu = first; cpu <= (count == 2 ? last : first); cpu++)
                    CPU_SET(cpu, &of_node[nodes]);
            }
        fclose(file);
    }
}

/* Counts the pages on each node. */
static void count_pages(unsigned char *at, size_t length, size_t *counts) {
    size_t count = length / PAGE;
    void **pages = calloc(count, sizeof *pages);
    int *status = calloc(count, sizeof *status);
    memset(counts, 0, sizeof(size_t) * MOST_NODES);
    for (size_t page = 0; page < count; page++)
        pages[page] = at + page * PAGE;
    must(syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) == 0, "move_pages fails", -1);
    for (size_t page = 0; page < count; page++)
        if (status[page] >= 0 && status[page] < MOST_NODES)
            counts[status[page]]++;
    free(pages);
    free(status);
}

static void all_on(unsigned char *at, int node, const char *what) {
    size_t counts[MOST_NODES];
    count_pages(at, LENGTH, counts);
    if (counts[node] != LENGTH / PAGE) {
        printf("numa: %s: pages per node", what);
        for (int other = 0; other < nodes; other++)
            printf(" %zu", counts[other]);
        printf("; expected: all on node %d\n", node);
        failed = 1;
    }
}

static unsigned char *map(int flags) {
    unsigned char *at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    must(at != MAP_FAILED, "mmap fails", -1);
    return at;
}

static void policy_of(void *at, int mode, unsigned long mask) {
    must(syscall(SYS_mbind, at, LENGTH, mode, &mask, 64UL, 0) == 0, "mbind fails", mode);
}

static void own_policy(int mode, unsigned long mask) {
    must(syscall(SYS_set_mempolicy, mode, mode == DEFAULT ? NULL : &mask, 64UL) == 0, "set_mempolicy fails", mode);
}

/* State of the thread that watches the others: helpers may run only where this process may. */
static volatile int watching;
static unsigned long helpers_seen, helpers_astray;

static void look_at_task(int task) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (task == getpid() || task == gettid() || sched_getaffinity(task, sizeof mask, &mask) != 0)
        return;
    helpers_seen++;
    cpu_set_t both;
    CPU_AND(&both, &mask, &inherited);
    if (!CPU_EQUAL(&both, &mask))
        helpers_astray++;
}

static void *watch(void *argument) {
    while (watching) {
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *task; tasks && (task = readdir(tasks));)
            if (task->d_name[0] != '.')
                look_at_task(atoi(task->d_name));
        if (tasks)
            closedir(tasks);
    }
    return argument;
}

static void pinned_to(int node) {
    cpu_set_t mask;
    CPU_AND(&mask, &of_node[node], &inherited);
    must(sched_setaffinity(0, sizeof mask, &mask) == 0, "cannot be bound", node);
}

static void local(void) {
    for (int node = 0; node < nodes; node++) {
        cpu_set_t mask;
        CPU_AND(&mask, &of_node[node], &inherited);
        if (CPU_COUNT(&mask) == 0)
            continue;
        pinned_to(node);
        unsigned char *at = map(MAP_PRIVATE | MAP_POPULATE);
        all_on(at, node, "MAP_POPULATE without a policy");
        munmap(at, LENGTH);
        at = map(MAP_SHARED);
        must(mlock(at, LENGTH) == 0, "mlock fails", node);
        all_on(at, node, "mlock without a policy");
        munmap(at, LENGTH);
    }
    must(sched_setaffinity(0, sizeof inherited, &inherited) == 0, "cannot be unbound", -1);
}

static void named(int node) {
    unsigned long mask = 1UL << node;
    unsigned char *at = map(MAP_PRIVATE);
    policy_of(at, BIND, mask);
    must(mlock(at, LENGTH) == 0, "mlock fails", node);
    all_on(at, node, "mbind(MPOL_BIND), mlock");
    munmap(at, LENGTH);

    at = map(MAP_PRIVATE);
    policy_of(at, PREFERRED, mask);
    must(madvise(at, LENGTH, MADV_POPULATE_WRITE) == 0, "MADV_POPULATE_WRITE fails", node);
    all_on(at, node, "mbind(MPOL_PREFERRED), MADV_POPULATE_WRITE");
    munmap(at, LENGTH);

    own_policy(BIND, mask);
    at = map(MAP_PRIVATE | MAP_POPULATE);
    all_on(at, node, "set_mempolicy(MPOL_BIND), MAP_POPULATE");
    munmap(at, LENGTH);
    own_policy(DEFAULT, 0);

    int id = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
    own_policy(BIND, mask);
    at = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    must(shmctl(id, SHM_LOCK, NULL) == 0, "SHM_LOCK fails", node);
    must(mlock(at, LENGTH) == 0, "mlock fails", node);
    own_policy(DEFAULT, 0);
    all_on(at, node, "a segment under set_mempolicy(MPOL_BIND)");
    shmdt(at);
}

static void interleaved(void) {
    size_t counts[MOST_NODES];
    unsigned char *at = map(MAP_PRIVATE);
    policy_of(at, INTERLEAVE, 3);
    must(mlock(at, LENGTH) == 0, "mlock fails", -1);
    count_pages(at, LENGTH, counts);
    /* Huge pages where available, with small ones at both ends. */
    must(counts[0] + counts[1] == LENGTH / PAGE && counts[0] > LENGTH / PAGE / 3 && counts[1] > LENGTH / PAGE / 3,
         "mbind(MPOL_INTERLEAVE) is not even", -1);
    munmap(at, LENGTH);
}

static void spread(void) {
    size_t counts[MOST_NODES];
    unsigned char *at = map(MAP_PRIVATE | MAP_POPULATE);
    count_pages(at, LENGTH, counts);
    for (int node = 0; node < nodes; node++)
        must(counts[node] > 0 || CPU_COUNT(&of_node[node]) == 0, "numa=spread uses no memory of a node", node);
    munmap(at, LENGTH);
}

int run_numa(const char *how) {
    pthread_t watcher;
    CPU_ZERO(&inherited);
    sched_getaffinity(0, sizeof inherited, &inherited);
    read_nodes();
    if (nodes < 2)
        return 2;
    watching = 1;
    pthread_create(&watcher, NULL, watch, NULL);
    if (strcmp(how, "spread") == 0)
        spread();
    else
        local();
    if (strcmp(how, "all") == 0) {
        for (int node = 0; node < nodes; node++)
            named(node);
        interleaved();
    }
    watching = 0;
    pthread_join(watcher, NULL);
    must(helpers_astray == 0, "helpers ran on processors that this process may not use", -1);
    printf("numa %s: %d nodes, helpers seen %s: %s\n", how, nodes, helpers_seen ? "yes" : "no", failed ? "WRONG" : "right");
    return failed;
}
