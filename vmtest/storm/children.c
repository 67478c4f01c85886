/* Steps that create processes. Everything that a process shares or inherits must be the same as in a plain run. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

static long status_of(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, __WALL) != child)
        return -1;
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void in_a_fork(struct world *world) {
    struct range range = draw_range(world);
    int end = DRAW(world, 0, 1, 2, 3);
    uint64_t random = draw(world, 1UL << 40);
    fflush(world->out);
    pid_t child = fork();
    if (child == 0) {
        struct world of_child = *world;
        of_child.random = random;
        of_child.out = fopen("/dev/null", "we");
        uint64_t seen = contents(world, range);
        for (int step = 0; step < 6; step++)
            (step % 3 == 2 ? step_of_locks : step_of_mappings)(&of_child);
        seen ^= contents(&of_child, range) << 1;
        int status = (int)((seen ^ seen >> 32) & 63);
        switch (end) {
        case 0: _exit(status);
        case 1: exit(status);
        case 2: quick_exit(status);
        default: raise(SIGKILL);
        }
    }
    tell(world, status_of(child), "fork %zu+%zu %d", range.page, range.pages, end);
}

/* The child borrows the memory of its parent, which waits. */
static void in_a_vfork(struct world *world) {
    int end = DRAW(world, 0, 1, 2);
    fflush(world->out);
    pid_t child = vfork();
    if (child == 0) {
        if (end == 1)
            execl("/bin/true", "true", NULL);
        if (end == 2)
            execl("/nonexistent", "nothing", NULL);
        _exit(7);
    }
    tell(world, status_of(child), "vfork %d", end);
}

static int borrower(void *world) {
    struct world *borrowed = world;
    ((volatile int *)&borrowed->segments[0])[1] += 0;
    _exit(9);
}

/* A process that shares only memory. */
static void in_a_clone(struct world *world) {
    const size_t room = 64 << 10;
    unsigned char *stack = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return;
    fflush(world->out);
    tell(world, status_of(clone(borrower, stack + room, CLONE_VM | SIGCHLD, world)), "clone");
    munmap(stack, room);
}

static void spawn(struct world *world) {
    static char *const arguments[] = {"true", NULL};
    static char *const environment[] = {NULL};
    pid_t child = -1;
    int error = posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environment);
    tell(world, error ? error : status_of(child), "spawn");
}

static void *work_of_thread(void *world) {
    step_of_locks(world);
    step_of_mappings(world);
    return NULL;
}

static void in_a_thread(struct world *world) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    int error = pthread_create(&thread, &attributes, work_of_thread, world);
    if (error == 0)
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    tell(world, error, "thread");
}

void step_of_children(struct world *world) {
    switch (draw(world, 8)) {
    case 0: case 1: case 2: in_a_fork(world); break;
    case 3: case 4: in_a_vfork(world); break;
    case 5: in_a_clone(world); break;
    case 6: spawn(world); break;
    default: in_a_thread(world);
    }
    look(world, draw_range(world));
}
