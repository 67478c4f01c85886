/* storm: random calls on memory. See storm.h.
 *
 *     storm one SEED STEPS ROUNDS       one thread; executes itself again between rounds
 *     storm many SEED STEPS THREADS     threads, each of which must behave as if alone
 *     storm together SEED PROCESSES THREADS ROUNDS
 *     storm signals SEED ROUNDS
 *     storm victim SEED BYTES JOURNAL   until it is killed
 *     storm limit WHAT BYTES
 *     storm numa all|local|spread
 *     storm denied MODE ARGUMENT...     another mode, with a madvise that cannot populate
 *
 * Exit status: 0 success, 1 failure, 2 not run. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

#include "storm.h"

static int usage(void) {
    fputs("usage: storm one|many|together|signals|victim|limit ... (see main.c)\n", stderr);
    return 2;
}

/* Prints whether segments of the program before exec are still attached. None should be. */
static void look_back(const char *ids) {
    char *rest;
    for (int number = 0; *ids; ids = *rest ? rest + 1 : rest, number++) {
        struct shmid_ds is;
        int id = (int)strtol(ids, &rest, 10);
        if (id < 0)
            continue;
        long attached = shmctl(id, IPC_STAT, &is) == 0 ? (long)is.shm_nattch : -1;
        printf("exec: segment %d attached %ld, removed %d\n", number, attached, shmctl(id, IPC_RMID, NULL));
    }
}

static int run_one(char **arguments) {
    uint64_t seed = strtoul(arguments[2], NULL, 0);
    unsigned long steps = strtoul(arguments[3], NULL, 0), rounds = strtoul(arguments[4], NULL, 0);
    struct world world;
    if (arguments[5])
        look_back(arguments[5]);
    world_begin(&world, seed, 0, 1, stdout);
    world_steps(&world, steps);
    printf("threads %lu\n", threads_of_process());
    if (rounds <= 1) {
        world_end(&world);
        printf("locked at the end %zu\n", locked_bytes());
        return 0;
    }
    char next_seed[32], next_rounds[32], ids[SEGMENTS * 16] = "";
    snprintf(next_seed, sizeof next_seed, "%lu", seed + 1);
    snprintf(next_rounds, sizeof next_rounds, "%lu", rounds - 1);
    for (int at = 0; at < SEGMENTS; at++)
        snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%d,", world.segments[at].id);
    fflush(stdout);
    execl("/proc/self/exe", arguments[0], "one", next_seed, arguments[3], next_rounds, ids, NULL);
    perror("storm: exec");
    return 2;
}

struct thread {
    pthread_t handle;
    struct world world;
    unsigned long steps;
    char *text;
    size_t length;
};

static void *run_thread(void *argument) {
    struct thread *thread = argument;
    world_steps(&thread->world, thread->steps);
    return NULL;
}

static int run_many(uint64_t seed, unsigned long steps, unsigned count) {
    struct thread *threads = calloc(count, sizeof *threads);
    for (unsigned at = 0; at < count; at++) {
        threads[at].steps = steps;
        world_begin(&threads[at].world, seed + at, at, 0, open_memstream(&threads[at].text, &threads[at].length));
    }
    for (unsigned at = 0; at < count; at++)
        if (pthread_create(&threads[at].handle, NULL, run_thread, &threads[at]) != 0)
            return 2;
    /* Prints nothing until all threads have ended: when a child forked by one of them exits, it writes its copy of the
     * stdout buffer again. */
    for (unsigned at = 0; at < count; at++)
        pthread_join(threads[at].handle, NULL);
    for (unsigned at = 0; at < count; at++) {
        world_end(&threads[at].world);
        fclose(threads[at].world.out);
        printf("thread %u\n%s", at, threads[at].text);
    }
    printf("threads %lu, locked at the end %zu\n", threads_of_process(), locked_bytes());
    return 0;
}

/* STORM_LIMIT_LOCK=BYTES: runs as a user without privileges and with this limit on locked memory. */
static void obey_limits(void) {
    const char *lock = getenv("STORM_LIMIT_LOCK");
    if (!lock)
        return;
    struct rlimit limit;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    /* Locked segments are charged to the user, not to the process; no other process has this user id. */
    uid_t user = 3000000U + (uid_t)getpid();
    rlim_t wanted = strtoul(lock, NULL, 0);
    limit.rlim_cur = limit.rlim_max = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (geteuid() == 0 && setresuid(user, user, user) != 0)) {
        perror("storm: limits");
        exit(2);
    }
}

int main(int count, char **arguments) {
    if (count < 3)
        return usage();
    const char *mode = arguments[1];
    if (strcmp(mode, "denied") == 0) {
        arguments[1] = arguments[0];
        return run_denied(arguments + 1);
    }
    if (strcmp(mode, "numa") == 0)
        return run_numa(arguments[2]);
    if (count < 4)
        return usage();
    unsigned long numbers[4] = {0};
    for (int at = 2; at < count && at < 6; at++)
        numbers[at - 2] = strtoul(arguments[at], NULL, 0);
    obey_limits();
    threads_of_process();
    if (strcmp(mode, "one") == 0 && count >= 5)
        return run_one(arguments);
    if (strcmp(mode, "many") == 0 && count == 5 && numbers[2] <= MOST_THREADS)
        return run_many(numbers[0], numbers[1], (unsigned)numbers[2]);
    if (strcmp(mode, "together") == 0 && count == 6 && numbers[2] <= MOST_THREADS)
        return run_together(numbers[0], (unsigned)numbers[1], (unsigned)numbers[2], numbers[3]);
    if (strcmp(mode, "signals") == 0)
        return run_signals(numbers[0], numbers[1]);
    if (strcmp(mode, "victim") == 0 && count == 5)
        return run_victim(numbers[0], numbers[1], arguments[4]);
    if (strcmp(mode, "limit") == 0)
        return run_limits(arguments[2], numbers[1]);
    return usage();
}
