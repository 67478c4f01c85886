/* Signals before, in and after calls; handlers that make the same calls; small stacks. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

#define LENGTH (512UL << 10)

static int failed;
static volatile sig_atomic_t handled;
static sigjmp_buf back;
static volatile sig_atomic_t may_jump;

static void must(int good, const char *what) {
    if (!good) {
        printf("signals: %s (%s)\n", what, strerrorname_np(errno));
        failed = 1;
    }
}

static uint64_t mask(void) {
    uint64_t now = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof now);
    return now;
}

/* Makes each call once, on memory of its own. */
static int everything(size_t length) {
    int good = 1;
    unsigned char *made = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (made == MAP_FAILED)
        return 0;
    good &= mlock(made, length) == 0 && munlock(made, length) == 0;
    made[0] = made[length - 1] = 1;
    good &= munmap(made, length) == 0;
    int id = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
    unsigned char *at = shmat(id, NULL, 0);
    if (at == (void *)-1)
        return 0;
    good &= at[0] == 0 && shmctl(id, SHM_LOCK, NULL) == 0;
    at[length - 1] = 2;
    good &= shmctl(id, IPC_RMID, NULL) == 0 && shmdt(at) == 0;
    return good;
}

static volatile sig_atomic_t pause_between;

/* Sets one alarm. The handler sets the next one, so the interrupted code makes progress on slow machines too. */
static void alarms(int microseconds) {
    struct itimerval next = {{0, 0}, {0, microseconds}};
    pause_between = microseconds;
    setitimer(ITIMER_REAL, &next, NULL);
}

static void on_alarm(int signal) {
    (void)signal;
    int before = errno;
    handled++;
    if (may_jump) {
        alarms(pause_between);
        siglongjmp(back, 1);
    }
    if (!everything(LENGTH / 2))
        failed = 1;
    alarms(pause_between);
    errno = before;
}

/* Handlers make the same calls that they interrupt. */
static void handlers_that_call(unsigned long rounds) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    uint64_t before = mask();
    alarms(700);
    for (unsigned long round = 0; round < rounds; round++) {
        must(everything(LENGTH), "a call failed under alarms");
        must(mask() == before, "a call changed the signal mask");
    }
    alarms(0);
    must(handled > 0, "no alarm arrived");
}

/* Handlers jump out of the calls that they interrupt; later calls must work. The arena is at a fixed address: otherwise
 * a program could not free what a call had made when it was left by a jump. */
static void jumps(unsigned long rounds) {
    unsigned char *arena = (unsigned char *)0x7eb000000000UL;
    volatile unsigned long round = 0;
    volatile int id = -1;
    sigset_t none;
    sigemptyset(&none);
    uint64_t before = mask();
    if (sigsetjmp(back, 1) == 0)
        may_jump = 1;
    alarms(900);
    while (round < rounds) {
        round++;
        must(mmap(arena, LENGTH, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_FIXED, -1, 0) == arena, "mmap failed between jumps");
        arena[LENGTH - 1] = 1;
        must(mlock(arena, LENGTH) == 0, "mlock failed between jumps");
        if (id < 0)
            id = shmget(0x5c000000 | (getpid() & 0xffffff), LENGTH, IPC_CREAT | 0600);
        must(shmat(id, arena, SHM_REMAP) == arena, "shmat failed between jumps");
        must(shmdt(arena) == 0 || errno == EINVAL, "shmdt failed between jumps");
        must(munmap(arena, LENGTH) == 0, "munmap failed between jumps");
    }
    may_jump = 0;
    alarms(0);
    munmap(arena, LENGTH);
    shmctl(id, IPC_RMID, NULL);
    must(mask() == before, "jumps changed the signal mask");
    must(threads_of_process() == 0, "threads remain after jumps");
}

/* A fatal signal during a call ends the program. */
static void deadly(struct world *world, unsigned long rounds) {
    for (unsigned long round = 0; round < rounds / 20 + 1; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (;;)
                everything(16 << 20);
        }
        usleep((useconds_t)draw(world, 20000));
        kill(child, SIGTERM);
        int status = 0;
        must(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM,
             "a process did not end by SIGTERM");
    }
}

/* Signals that the program blocks stay pending, and do not disturb calls. */
static void held_back(void) {
    sigset_t set;
    int got = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTERM);
    kill(getpid(), SIGUSR1);
    must(everything(LENGTH), "a call failed with a pending signal");
    must(sigwait(&set, &got) == 0 && sigwait(&set, &got) == 0, "a pending signal was lost");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void *on_a_small_stack(void *argument) {
    (void)argument;
    return everything(LENGTH) ? NULL : (void *)1;
}

/* The smallest stack allowed for a thread, and the smallest for a handler. */
static void small_stacks(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = (void *)1;
    pthread_attr_init(&attributes);
    must(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0, "no small stack");
    must(pthread_create(&thread, &attributes, on_a_small_stack, NULL) == 0, "no thread");
    pthread_join(thread, &result);
    must(result == NULL, "a call failed on a small stack");

    stack_t small = {.ss_size = (size_t)sysconf(_SC_SIGSTKSZ)}, before;
    unsigned char *room = mmap(NULL, small.ss_size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room, PAGE, PROT_NONE);
    small.ss_sp = room + PAGE;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK};
    sigaltstack(&small, &before);
    sigaction(SIGALRM, &action, NULL);
    raise(SIGALRM);
    sigaltstack(&before, NULL);
    munmap(room, small.ss_size + PAGE);
}

int run_signals(uint64_t seed, unsigned long rounds) {
    struct world world = {.random = seed};
    errno = 4711;
    must(everything(LENGTH), "a call failed");
    must(errno == 4711, "a successful call changed errno");
    handlers_that_call(rounds);
    jumps(rounds);
    deadly(&world, rounds);
    held_back();
    small_stacks();
    must(threads_of_process() == 0, "threads remain");
    must(locked_bytes() == 0, "memory remains locked");
    printf("signals: %s\n", failed ? "WRONG" : "right");
    return failed;
}
