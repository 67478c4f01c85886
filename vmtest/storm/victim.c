/* Creates, locks and destroys large objects until it is killed. A journal in a file records the segments that it would
 * leave behind. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

/* The journal. A segment is recorded from before its creation until after its removal. */
struct journal {
    volatile int making; /* shmget is running, or its id is not recorded yet */
    volatile int segment;
    volatile int rounds;
    volatile int destroying; /* private objects are being freed */
};

static void a_segment(struct world *world, size_t size, struct journal *journal) {
    journal->making = 1;
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    journal->segment = id;
    journal->making = 0;
    unsigned char *at = shmat(id, NULL, 0);
    if (id < 0 || at == (void *)-1)
        exit(3);
    int early = draw(world, 2) == 0;
    if (early && shmctl(id, IPC_RMID, NULL) == 0)
        journal->segment = -1;
    if (draw(world, 2) == 0)
        shmctl(id, SHM_LOCK, NULL);
    if (draw(world, 2) == 0)
        mlock(at, size / 2);
    memset(at + size / 4, 1, size / 4);
    if (draw(world, 4) == 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(at[size / 4] != 1);
        waitpid(child, NULL, 0);
    }
    journal->destroying = 1;
    shmdt(at);
    if (!early) {
        shmctl(id, IPC_RMID, NULL);
        journal->segment = -1;
    }
    journal->destroying = 0;
}

static void a_mapping(struct world *world, size_t size) {
    int file = draw(world, 2) ? memfd_create("victim", 0) : -1;
    if (file >= 0 && ftruncate(file, (off_t)size) != 0)
        exit(3);
    int kind = (file < 0 ? MAP_ANONYMOUS : 0) | DRAW(world, MAP_PRIVATE, MAP_SHARED);
    unsigned char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, kind | DRAW(world, MAP_POPULATE, MAP_LOCKED, 0), file, 0);
    if (at == MAP_FAILED)
        exit(3);
    memset(at, 2, size / 8);
    if (draw(world, 2) == 0)
        mlock(at, size);
    munmap(at, size);
    if (file >= 0)
        close(file);
}

int run_victim(uint64_t seed, size_t size, const char *path) {
    struct world world = {.random = seed};
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct journal)) != 0)
        return 2;
    struct journal *journal = mmap(NULL, sizeof *journal, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (journal == MAP_FAILED)
        return 2;
    journal->segment = -1;
    for (;; journal->rounds++) {
        if (draw(&world, 3) != 0)
            a_segment(&world, size, journal);
        else
            a_mapping(&world, size);
        /* In some rounds the program can be killed while a large process exits. */
        if (draw(&world, 8) == 0) {
            void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            if (fork() == 0)
                exit(0);
            wait(NULL);
            munmap(at, size);
        }
    }
}
