/* Each call requests more memory than may be available. Prints the result of each call, unless the call kills the
 * program. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

#include "storm.h"

static void say(const char *what, int good) { printf("%s: %s\n", what, good ? "done" : strerrorname_np(errno)); }

static void limit(int which, rlim_t bytes) {
    struct rlimit limit = {bytes, bytes};
    if (setrlimit(which, &limit) != 0)
        exit(2);
}

static void on_bus(int signal) {
    static const char text[] = "touch: SIGBUS\n";
    (void)signal;
    if (write(1, text, sizeof text - 1) < 0)
        _exit(3);
    _exit(0);
}

static void *map(size_t size, int kind, int file) {
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, kind | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    say("mmap", made != MAP_FAILED);
    return made;
}

static void a_segment(size_t size) {
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    say("shmget", id >= 0);
    void *at = shmat(id, NULL, 0);
    say("shmat", at != (void *)-1);
    /* Marks the segment for removal now: none remains, however this process ends. */
    shmctl(id, IPC_RMID, NULL);
    if (at == (void *)-1)
        return;
    say("SHM_LOCK", shmctl(id, SHM_LOCK, NULL) == 0);
    say("mlock", mlock(at, size) == 0);
    memset(at, 1, size);
    say("shmdt", shmdt(at) == 0);
}

/* Maps a file at STORM_FILE that is larger than its file system. */
static void a_file(size_t size, int kind) {
    const char *path = getenv("STORM_FILE");
    int file = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    if (file < 0 || ftruncate(file, (off_t)size) != 0)
        exit(2);
    unlink(path);
    signal(SIGBUS, on_bus);
    unsigned char *at = map(size, MAP_SHARED | kind, file);
    if (at != MAP_FAILED) {
        say("mlock", mlock(at, size) == 0);
        memset(at, 1, size);
        say("munmap", munmap(at, size) == 0);
    }
}

static void more_calls(size_t size) {
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | 0600);
    say("shmget", id >= 0);
    void *at = shmat(id, NULL, 0);
    say("shmat", at != (void *)-1);
    shmctl(id, IPC_RMID, NULL);
    void *locked = map(size, MAP_PRIVATE | MAP_LOCKED, -1);
    if (locked != MAP_FAILED)
        munmap(locked, size);
    void *populated = map(size, MAP_PRIVATE | MAP_POPULATE, -1);
    if (populated != MAP_FAILED) {
        say("mlock", mlock(populated, size) == 0);
        say("mlock2", mlock2(populated, size, MLOCK_ONFAULT) == 0);
        say("mlockall", mlockall(MCL_CURRENT) == 0);
        munlockall();
        say("munmap", munmap(populated, size) == 0);
    }
    if (at != (void *)-1)
        say("shmdt", shmdt(at) == 0);
}

int run_limits(const char *what, size_t size) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(what, "segment") == 0)
        a_segment(size);
    else if (strcmp(what, "populate") == 0) {
        void *at = map(size, MAP_PRIVATE | MAP_POPULATE, -1);
        if (at != MAP_FAILED)
            say("munmap", munmap(at, size) == 0);
    } else if (strcmp(what, "locked") == 0)
        map(size, MAP_PRIVATE | MAP_LOCKED, -1);
    else if (strcmp(what, "shared") == 0)
        map(size, MAP_SHARED | MAP_POPULATE, -1);
    else if (strcmp(what, "file") == 0)
        a_file(size, 0);
    else if (strcmp(what, "file-populate") == 0)
        a_file(size, MAP_POPULATE);
    else if (strcmp(what, "as") == 0) {
        limit(RLIMIT_AS, size / 2);
        more_calls(size);
    } else if (strcmp(what, "as-tight") == 0) {
        limit(RLIMIT_AS, size * 5 / 2);
        more_calls(size);
    } else if (strcmp(what, "threads") == 0) {
        limit(RLIMIT_NPROC, 1);
        more_calls(size);
    } else if (strcmp(what, "file-size") == 0) {
        limit(RLIMIT_FSIZE, 4096);
        more_calls(size);
    } else if (strcmp(what, "descriptors") == 0) {
        struct rlimit before, none = {0, 0};
        getrlimit(RLIMIT_NOFILE, &before);
        none.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_NOFILE, &none);
        more_calls(size);
        setrlimit(RLIMIT_NOFILE, &before);
    } else if (strcmp(what, "memlock") == 0) {
        limit(RLIMIT_MEMLOCK, size / 2);
        more_calls(size);
    } else
        return 2;
    printf("threads %lu, locked %d\n", threads_of_process(), locked_bytes() != 0);
    return 0;
}
