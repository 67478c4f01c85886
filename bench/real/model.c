// Memory as databases and caches use it, without anything else: each way in a few calls, timed.
// Usage: model shm|malloc-lockall|lockall-malloc|mlock|populate|populate-exit BYTES
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>

static double last;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

// Ends where a call has failed; else prints the seconds since the step before.
static void step(const char *name, int failed) {
    if (failed) {
        perror(name);
        exit(1);
    }
    printf("%s %.6f\n", name, now() - last);
    last = now();
}

static void touch(volatile char *memory, size_t size) {
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = 1;
    step("touch", 0);
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    const char *way = words[1];
    size_t size = strtoull(words[2], NULL, 10);
    char *memory;
    last = now();
    if (!strcmp(way, "shm")) {
        int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
        memory = shmat(id, NULL, 0);
        step("attach", memory == (void *)-1);
        step("lock", shmctl(id, SHM_LOCK, NULL));
        touch(memory, size);
        step("detach", shmdt(memory));
        step("remove", shmctl(id, IPC_RMID, NULL));
    } else if (!strcmp(way, "malloc-lockall") || !strcmp(way, "mlock")) {
        memory = malloc(size);
        step("malloc", !memory);
        step("lock", !strcmp(way, "mlock") ? mlock(memory, size) : mlockall(MCL_CURRENT));
        touch(memory, size);
    } else if (!strcmp(way, "lockall-malloc")) {
        step("lock", mlockall(MCL_CURRENT | MCL_FUTURE));
        memory = malloc(size);
        step("malloc", !memory);
        touch(memory, size);
    } else if (!strncmp(way, "populate", 8)) {
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        step("map", memory == MAP_FAILED);
        touch(memory, size);
        if (strcmp(way, "populate-exit"))
            step("unmap", munmap(memory, size));
    } else {
        return 2;
    }
    printf("end\n");
    return fflush(stdout);
}
