/* Threads of several processes on the same segments at the same time. Each page belongs to one thread; only this thread
 * writes the page, and it checks the contents. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

#define COMMON 4
#define COMMON_PAGES 512UL

struct common {
    int ids[COMMON];
    unsigned workers;
    unsigned long rounds;
};

struct worker {
    const struct common *common;
    unsigned number;
    struct world world; /* random numbers of the worker */
    uint64_t marks[COMMON][COMMON_PAGES];
    const char *wrong;
};

static void check(struct worker *worker, int good, const char *what) {
    if (!good && !worker->wrong)
        worker->wrong = what;
}

/* Reads the worker's pages, or writes new marks. */
static void visit(struct worker *worker, int which, unsigned char *at, int write) {
    for (size_t page = worker->number; page < COMMON_PAGES; page += worker->common->workers) {
        uint64_t *mark = (uint64_t *)(at + page * PAGE + 8 * (page % 512));
        check(worker, *mark == worker->marks[which][page], "a page of a segment lost its contents");
        if (write)
            *mark = worker->marks[which][page] = draw(&worker->world, ~0UL);
    }
}

static void one_round(struct worker *worker) {
    struct world *world = &worker->world;
    int which = (int)draw(world, COMMON);
    int writes = draw(world, 4) != 0;
    unsigned char *at = shmat(worker->common->ids[which], NULL, writes ? 0 : SHM_RDONLY);
    if (at == (void *)-1) {
        check(worker, 0, "shmat failed");
        return;
    }
    for (uint64_t more = draw(world, 6); more > 0; more--) {
        size_t page = draw(world, COMMON_PAGES), length = (1 + draw(world, COMMON_PAGES - page)) * PAGE;
        int status = 0;
        switch (draw(world, 6)) {
        case 0: status = mlock(at + page * PAGE, length); break;
        case 1: status = munlock(at + page * PAGE, length); break;
        case 2: status = mlock2(at + page * PAGE, length, MLOCK_ONFAULT); break;
        case 3: status = shmctl(worker->common->ids[which], DRAW(world, SHM_LOCK, SHM_UNLOCK), NULL); break;
        case 4: visit(worker, which, at, writes); break;
        default: {
            unsigned char *own = mmap(NULL, length, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | DRAW(world, MAP_POPULATE, MAP_LOCKED), -1, 0);
            check(worker, own != MAP_FAILED && own[length - 1] == 0, "new memory is missing, or not zero");
            if (own != MAP_FAILED) {
                memset(own, 0xa5, length);
                status = munmap(own, length);
            }
        }
        }
        check(worker, status == 0, "a call failed");
    }
    visit(worker, which, at, writes);
    if (draw(world, 64) == 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(memcmp(at, at, PAGE * COMMON_PAGES) != 0);
        int status = -1;
        check(worker, child > 0 && waitpid(child, &status, 0) == child && status == 0, "a forked child failed");
    }
    check(worker, shmdt(at) == 0, "shmdt failed");
}

static void *work(void *argument) {
    struct worker *worker = argument;
    for (unsigned long round = 0; round < worker->common->rounds && !worker->wrong; round++)
        one_round(worker);
    /* Written pages must still have their contents at the end. */
    for (int which = 0; which < COMMON; which++) {
        unsigned char *at = shmat(worker->common->ids[which], NULL, 0);
        check(worker, at != (void *)-1, "the last shmat failed");
        if (at != (void *)-1) {
            visit(worker, which, at, 0);
            shmdt(at);
        }
    }
    return NULL;
}

static int process(const struct common *common, uint64_t seed, unsigned first, unsigned threads) {
    struct worker *workers = calloc(threads, sizeof *workers);
    pthread_t handles[MOST_THREADS];
    int failed = threads_of_process() != 0;
    for (unsigned at = 0; at < threads; at++) {
        workers[at].common = common;
        workers[at].number = first + at;
        workers[at].world.random = seed * 1000 + first + at;
        if (pthread_create(&handles[at], NULL, work, &workers[at]) != 0)
            exit(2);
    }
    for (unsigned at = 0; at < threads; at++) {
        pthread_join(handles[at], NULL);
        if (workers[at].wrong) {
            printf("worker %u: %s (%s)\n", first + at, workers[at].wrong, strerrorname_np(errno));
            failed = 1;
        }
    }
    if (threads_of_process() != 0 || locked_bytes() != 0) {
        printf("at the end: %lu threads, %zu bytes locked\n", threads_of_process(), locked_bytes());
        failed = 1;
    }
    free(workers);
    return failed;
}

int run_together(uint64_t seed, unsigned processes, unsigned threads, unsigned long rounds) {
    struct common common = {.workers = processes * threads, .rounds = rounds};
    int failed = 0;
    for (int which = 0; which < COMMON; which++)
        common.ids[which] = shmget(IPC_PRIVATE, COMMON_PAGES * PAGE, IPC_CREAT | 0600);
    for (unsigned at = 0; at < processes; at++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            exit(process(&common, seed, at * threads, threads));
        failed |= child < 0;
    }
    int status;
    while (wait(&status) > 0)
        failed |= status != 0;
    for (int which = 0; which < COMMON; which++) {
        struct shmid_ds is = {0};
        if (shmctl(common.ids[which], IPC_STAT, &is) != 0 || is.shm_nattch != 0) {
            printf("segment %d: %lu attached at the end\n", which, is.shm_nattch);
            failed = 1;
        }
        if (shmctl(common.ids[which], IPC_RMID, NULL) != 0 || shmctl(common.ids[which], IPC_STAT, &is) == 0) {
            printf("segment %d remains after IPC_RMID\n", which);
            failed = 1;
        }
    }
    printf("together: %u processes of %u threads, %lu rounds each: %s\n", processes, threads, rounds,
           failed ? "WRONG" : "right");
    return failed;
}
