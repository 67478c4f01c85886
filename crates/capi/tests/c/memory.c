/* Memory that the program maps: populate, lock, unlock, release, unmap, and what is refused. */
#include "check.h"

#include <bigiron_mem.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BIG = 48 << 20, UNSET = 4321 };

static const int READ_WRITE = PROT_READ | PROT_WRITE;
static long page;

static long kib(size_t bytes)
{
    return (long)(bytes >> 10);
}

static void populate_makes_pages(void)
{
    static const int kinds[] = {MAP_PRIVATE, MAP_SHARED};
    static const int ways[] = {BIGIRON_MEM_AS_MAPPED, BIGIRON_MEM_READ, BIGIRON_MEM_WRITE};
    for (size_t kind = 0; kind < 2; kind++)
        for (size_t way = 0; way < 3; way++) {
            char *memory = (char *)map(BIG, READ_WRITE, kinds[kind]);
            SAME(resident_pages(memory, BIG), 0);
            errno = UNSET;
            SAME(bigiron_mem_populate(memory, BIG, ways[way], NULL), 0);
            SAME(errno, UNSET);
            /* Read private memory has the page of zeros, which is not the process's own. */
            if (kinds[kind] == MAP_SHARED || ways[way] != BIGIRON_MEM_READ) {
                SAME(resident_pages(memory, BIG), BIG / page);
                SAME(smaps_kib(memory, BIG, "Rss:"), kib(BIG));
            }
            for (size_t at = 0; at < BIG; at += page)
                CHECK(memory[at] == 0);
            SAME(bigiron_mem_unmap(memory, BIG, NULL), 0);
            SAME(resident_pages(memory, BIG), -1);
        }
}

static void populate_grows_to_whole_pages_and_spans_mappings(void)
{
    char *memory = (char *)map(BIG, READ_WRITE, MAP_PRIVATE);
    /* The middle is another mapping, of another kind. */
    CHECK(mmap(memory + BIG / 3 / page * page, 8 << 20, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
          != MAP_FAILED);
    SAME(bigiron_mem_populate(memory + 1, BIG - 2, BIGIRON_MEM_AS_MAPPED, NULL), 0);
    SAME(smaps_kib(memory, BIG, "Rss:"), kib(BIG));
    SAME(bigiron_mem_unmap(memory, BIG, NULL), 0);
}

static void lock_and_unlock(void)
{
    char *memory = (char *)map(BIG, READ_WRITE, MAP_SHARED);
    errno = UNSET;
    SAME(bigiron_mem_lock(memory, BIG, NULL), 0);
    SAME(smaps_kib(memory, BIG, "Locked:"), kib(BIG));
    SAME(resident_pages(memory, BIG), BIG / page);
    SAME(bigiron_mem_unlock(memory + BIG / 2, BIG / 2), 0);
    SAME(smaps_kib(memory, BIG, "Locked:"), kib(BIG / 2));
    SAME(bigiron_mem_unlock(memory, BIG), 0);
    SAME(smaps_kib(memory, BIG, "Locked:"), 0);
    SAME(errno, UNSET);
    SAME(bigiron_mem_unmap(memory, BIG, NULL), 0);
}

static void release_keeps_what_is_shared(void)
{
    static const int kinds[] = {MAP_PRIVATE, MAP_SHARED};
    for (size_t kind = 0; kind < 2; kind++) {
        char *memory = (char *)map(BIG, READ_WRITE, kinds[kind]);
        memset(memory, 7, BIG);
        SAME(bigiron_mem_release(memory, BIG, NULL), 0);
        SAME(smaps_kib(memory, BIG, "Rss:"), 0);
        for (size_t at = 0; at < BIG; at += page)
            SAME(memory[at], kinds[kind] == MAP_SHARED ? 7 : 0);
        SAME(bigiron_mem_release(memory + 1, BIG - 1, NULL), -EINVAL);
        SAME(bigiron_mem_unmap(memory, BIG, NULL), 0);
    }
}

static int result_of(long result)
{
    return result == 0 ? 0 : -errno;
}

/* The sanitizers' mlock does nothing. */
static long plain_mlock(void *address, size_t length)
{
    return syscall(SYS_mlock, address, length);
}

static void errors_are_those_of_the_kernel(void)
{
    char *memory = (char *)map(BIG, READ_WRITE, MAP_PRIVATE);
    char *nothing = (char *)map(BIG, PROT_NONE, MAP_PRIVATE);
    char *constant = (char *)map(BIG, PROT_READ, MAP_PRIVATE);
    SAME(bigiron_mem_populate(nothing, BIG, BIGIRON_MEM_READ, NULL), result_of(madvise(nothing, BIG, MADV_POPULATE_READ)));
    SAME(bigiron_mem_populate(constant, BIG, BIGIRON_MEM_WRITE, NULL), result_of(madvise(constant, BIG, MADV_POPULATE_WRITE)));
    CHECK(bigiron_mem_populate(constant, BIG, BIGIRON_MEM_WRITE, NULL) < 0);
    SAME(bigiron_mem_lock(nothing, BIG, NULL), result_of(plain_mlock(nothing, BIG)));

    /* A hole in the middle. */
    SAME(munmap(memory + BIG / 2, page), 0);
    SAME(bigiron_mem_populate(memory, BIG, BIGIRON_MEM_AS_MAPPED, NULL), -ENOMEM);
    SAME(bigiron_mem_populate(memory, BIG, BIGIRON_MEM_WRITE, NULL), -ENOMEM);
    SAME(bigiron_mem_lock(memory, BIG, NULL), -ENOMEM);
    SAME(bigiron_mem_release(memory, BIG, NULL), -ENOMEM);
    SAME(bigiron_mem_unlock(memory, BIG), -ENOMEM);

    SAME(bigiron_mem_populate(NULL, BIG, BIGIRON_MEM_READ, NULL), -ENOMEM);
    SAME(bigiron_mem_populate((void *)(UINTPTR_MAX - page + 1), SIZE_MAX, BIGIRON_MEM_READ, NULL), -EINVAL);
    SAME(bigiron_mem_populate(memory, BIG, 3, NULL), -EINVAL);
    SAME(bigiron_mem_populate(memory, BIG, -1, NULL), -EINVAL);
    SAME(bigiron_mem_populate(memory, 0, BIGIRON_MEM_AS_MAPPED, NULL), 0);
    SAME(bigiron_mem_unmap(memory + 1, page, NULL), -EINVAL);
    SAME(bigiron_mem_unmap(memory, 0, NULL), result_of(munmap(memory, 0)));
    SAME(bigiron_mem_unmap(memory, BIG, NULL), 0);
    SAME(bigiron_mem_unmap(nothing, BIG, NULL), 0);
    SAME(bigiron_mem_unmap(constant, BIG, NULL), 0);
}

static void options_are_checked(void)
{
    char *memory = (char *)map(BIG, READ_WRITE, MAP_PRIVATE);
    struct {
        struct bigiron_mem_options known;
        uint64_t unknown[2];
    } newer;
    struct bigiron_mem_outcome outcome;
    struct bigiron_mem_options *options = &newer.known;

#define POPULATE() bigiron_mem_populate(memory, BIG, BIGIRON_MEM_WRITE, options)
    memset(&newer, 0, sizeof newer);
    SAME(POPULATE(), -EINVAL);
    options->size = sizeof *options - 1;
    SAME(POPULATE(), -EINVAL);
    options->size = (size_t)-1;
    SAME(POPULATE(), -EINVAL);
    options->size = sizeof *options;
    options->helpers = 65;
    SAME(POPULATE(), -EINVAL);
    options->helpers = 0;
    options->flags = 1u << 31;
    SAME(POPULATE(), -EINVAL);
    options->flags = 0;
    options->chunk = 3 << 20;
    SAME(POPULATE(), -EINVAL);
    options->chunk = 0;
    memset(&outcome, 0, sizeof outcome);
    options->outcome = &outcome;
    SAME(POPULATE(), -EINVAL);
    SAME(resident_pages(memory, BIG), 0);

    /* A program that was compiled with a header of the future. */
    outcome.size = sizeof outcome;
    options->size = sizeof newer;
    newer.unknown[1] = 1;
    SAME(POPULATE(), -E2BIG);
    newer.unknown[1] = 0;
    options->helpers = 2;
    options->chunk = 1 << 20;
    options->flags = BIGIRON_MEM_SPREAD | BIGIRON_MEM_HUGE;
    SAME(POPULATE(), 0);
    SAME(outcome.size, sizeof outcome);
    SAME(outcome.bytes, BIG);
    SAME(outcome.wanted, BIG);
    CHECK(outcome.helpers >= 1 && outcome.helpers <= 2);
    CHECK(outcome.elapsed_ns > 0 && outcome.busy_ns > 0);
    SAME(resident_pages(memory, BIG), BIG / page);
    SAME(bigiron_mem_unmap(memory, BIG, options), 0);
}

struct seen {
    pthread_t thread;
    uint64_t calls, done, wanted, stop_at;
};

static int progress(void *data, uint64_t done, uint64_t wanted)
{
    struct seen *seen = (struct seen *)data;
    CHECK(pthread_equal(seen->thread, pthread_self()));
    CHECK(done > seen->done && done <= wanted);
    seen->calls++;
    seen->done = done;
    seen->wanted = wanted;
    return done >= seen->stop_at;
}

static void progress_is_told_and_may_stop(void)
{
    size_t length = (size_t)640 << 20;
    struct bigiron_mem_outcome outcome = {sizeof outcome, 0, 0, 0, 0, 0, 0};
    struct seen seen = {pthread_self(), 0, 0, 0, UINT64_MAX};
    struct bigiron_mem_options options = {sizeof options, 0, 0, 0, 0, progress, &seen, &outcome};
    char *memory = (char *)map(length, READ_WRITE, MAP_PRIVATE | MAP_NORESERVE);

    /* Of zeros: it costs page tables alone. */
    SAME(bigiron_mem_populate(memory, length, BIGIRON_MEM_READ, &options), 0);
    CHECK(seen.calls >= 2);
    SAME(seen.done, length);
    SAME(seen.wanted, length);
    SAME(outcome.bytes, length);

    seen.calls = seen.done = 0;
    seen.stop_at = 1;
    SAME(bigiron_mem_release(memory, length, &options), -ECANCELED);
    SAME(seen.calls, 1);
    CHECK(outcome.bytes > 0 && outcome.bytes < length);

    seen.calls = seen.done = 0;
    seen.stop_at = UINT64_MAX;
    SAME(bigiron_mem_lock(memory, 32 << 20, &options), 0);
    SAME(seen.done, 32 << 20);
    SAME(smaps_kib(memory, length, "Locked:"), 32 << 10);
    SAME(bigiron_mem_unmap(memory, length, NULL), 0);
}

static void *use_it(void *unused)
{
    for (int i = 0; i < 10; i++) {
        char *memory = (char *)map(12 << 20, READ_WRITE, MAP_PRIVATE);
        SAME(bigiron_mem_populate(memory, 12 << 20, BIGIRON_MEM_AS_MAPPED, NULL), 0);
        SAME(resident_pages(memory, 12 << 20), (12 << 20) / page);
        SAME(bigiron_mem_unmap(memory, 12 << 20, NULL), 0);
    }
    return unused;
}

static void threads_and_children_may_use_it(void)
{
    pthread_t threads[4];
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        use_it(NULL);
        _exit(0);
    }
    for (int i = 0; i < 4; i++)
        SAME(pthread_create(&threads[i], NULL, use_it, NULL), 0);
    for (int i = 0; i < 4; i++)
        SAME(pthread_join(threads[i], NULL), 0);
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
}

/* In a child: what it gives up it does not get back. */
static void limits_are_told_as_by_mlock(void)
{
    static const rlim_t limits[] = {1 << 20, 0};
    int status;
    if (geteuid() != 0) {
        printf("not tried: limits of locking, which need another user: this one is not root\n");
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            struct rlimit limit = {limits[i], limits[i]};
            char *memory = (char *)map(BIG, READ_WRITE, MAP_PRIVATE);
            int expected;
            SAME(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
            SAME(setuid(65534), 0);
            expected = result_of(plain_mlock(memory, BIG));
            CHECK(expected < 0);
            SAME(bigiron_mem_lock(memory, BIG, NULL), expected);
            SAME(smaps_kib(memory, BIG, "Locked:"), 0);
            _exit(0);
        }
        SAME(waitpid(child, &status, 0), child);
        SAME(status, 0);
    }
}

static void errors_have_texts(void)
{
    CHECK(strstr(bigiron_mem_strerror(-ENOMEM), "RLIMIT_MEMLOCK") != NULL);
    CHECK(bigiron_mem_strerror(ENOMEM) == bigiron_mem_strerror(-ENOMEM));
    CHECK(strlen(bigiron_mem_strerror(0)) > 0);
    CHECK(strlen(bigiron_mem_strerror(123456)) > 0);
    CHECK(strlen(bigiron_mem_strerror(-2147483647 - 1)) > 0);
    CHECK(strcmp(bigiron_mem_version(), EXPECTED_VERSION) == 0);
    SAME(bigiron_mem_works(), 0);
}

int main(void)
{
    page = sysconf(_SC_PAGESIZE);
    populate_makes_pages();
    populate_grows_to_whole_pages_and_spans_mappings();
    lock_and_unlock();
    release_keeps_what_is_shared();
    errors_are_those_of_the_kernel();
    options_are_checked();
    progress_is_told_and_may_stop();
    threads_and_children_may_use_it();
    limits_are_told_as_by_mlock();
    errors_have_texts();
    return 0;
}
