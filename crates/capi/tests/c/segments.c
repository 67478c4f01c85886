/* Segments that the library makes, as the system's own calls see them. */
#include "check.h"

#include <bigiron_mem.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { BIG = 24 << 20, UNSET = 4321 };

static long page;
/* For valgrind, which looks for lost memory in children too. */
static struct bigiron_mem_segment *volatile kept;
static char text[300];
/* Of this process alone: other tests run at the same time. */
static int key;
static char key_text[16], shared[64], shared_path[80];

static struct bigiron_mem_segment_options options_of(uint32_t kind, const char *name)
{
    struct bigiron_mem_segment_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.kind = kind;
    options.name = name;
    options.bytes = BIG;
    options.page_size = BIGIRON_MEM_SMALL_PAGES;
    options.error_text = text;
    options.error_text_size = sizeof text;
    return options;
}

static struct bigiron_mem_segment *create(const struct bigiron_mem_segment_options *options)
{
    struct bigiron_mem_segment *segment = NULL;
    int error;
    errno = UNSET;
    error = bigiron_mem_segment_create(options, &segment);
    if (error != 0)
        fprintf(stderr, "create: %d, %s\n", error, text);
    SAME(error, 0);
    SAME(errno, UNSET);
    CHECK(segment != NULL && text[0] == '\0');
    kept = segment;
    SAME(bigiron_mem_segment_bytes(segment), BIG);
    return segment;
}

static char *address(struct bigiron_mem_segment *segment)
{
    return (char *)bigiron_mem_segment_address(segment);
}

static void system_v_segments_are_those_of_ipcs(void)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_SYSTEM_V, NULL);
    struct bigiron_mem_segment *segment;
    struct shmid_ds state;
    char name[32], *other;
    int id;

    options.key = key;
    options.mode = 0640;
    options.flags = BIGIRON_MEM_LOCK;
    segment = create(&options);
    id = bigiron_mem_segment_id(segment);
    SAME(shmget(key, 0, 0), id);
    SAME(shmctl(id, IPC_STAT, &state), 0);
    SAME(state.shm_segsz, BIG);
    SAME(state.shm_nattch, 1);
    /* And SHM_LOCKED, which only the kernel's header has. */
    SAME(state.shm_perm.mode & 07777, 0640 | 02000);
    SAME(resident_pages(address(segment), BIG), BIG / page);
    SAME(bigiron_mem_segment_descriptor(segment, 0), -ENOENT);

    /* Another, of the same key. */
    {
        struct bigiron_mem_segment *second = segment;
        SAME(bigiron_mem_segment_create(&options, &second), -EEXIST);
        CHECK(second == NULL);
        CHECK(strstr(text, key_text) != NULL);
    }

    /* By another program, and by the library again. */
    strcpy(address(segment) + 5000, "written");
    other = (char *)shmat(id, NULL, 0);
    CHECK(strcmp(other + 5000, "written") == 0);
    snprintf(name, sizeof name, "%d", id);
    {
        struct bigiron_mem_segment *again = NULL;
        struct bigiron_mem_segment_options reading = options_of(0, NULL);
        reading.flags = BIGIRON_MEM_READ_ONLY;
        SAME(bigiron_mem_segment_attach(name, &reading, &again), 0);
        CHECK(strcmp(address(again) + 5000, "written") == 0);
        SAME(smaps_kib(address(again), BIG, "Rss:"), BIG >> 10);
        SAME(shmctl(id, IPC_STAT, &state), 0);
        SAME(state.shm_nattch, 3);
        /* The kernel takes no data for it from where nothing can be written. */
        {
            int zero = open("/dev/zero", O_RDONLY);
            SAME(read(zero, address(again), 1), -1);
            SAME(errno, EFAULT);
            close(zero);
        }
        SAME(bigiron_mem_segment_detach(again), 0);
        SAME(bigiron_mem_segment_attach(key_text, NULL, &again), 0);
        strcpy(address(again) + 5000, "anew");
        SAME(bigiron_mem_segment_detach(again), 0);
    }
    CHECK(strcmp(other + 5000, "anew") == 0);
    SAME(shmdt(other), 0);

    SAME(bigiron_mem_segment_unlock(segment), 0);
    SAME(shmctl(id, IPC_STAT, &state), 0);
    SAME(state.shm_perm.mode & 02000, 0);
    SAME(bigiron_mem_segment_lock(segment, NULL), 0);
    SAME(smaps_kib(address(segment), BIG, "Locked:"), BIG >> 10);

    SAME(bigiron_mem_segment_destroy(segment, NULL, NULL), 0);
    SAME(shmctl(id, IPC_STAT, &state), -1);
    CHECK(errno == EINVAL || errno == EIDRM);
}

static void detached_segments_stay_and_can_be_removed(void)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_SYSTEM_V, NULL);
    struct bigiron_mem_segment *segment = create(&options);
    int id = bigiron_mem_segment_id(segment);
    struct shmid_ds state;
    char name[32];
    snprintf(name, sizeof name, "%d", id);
    SAME(bigiron_mem_segment_detach(segment), 0);
    SAME(shmctl(id, IPC_STAT, &state), 0);
    SAME(state.shm_nattch, 0);
    SAME(bigiron_mem_prewarm(name, NULL), 0);
    SAME(bigiron_mem_remove(name, NULL, NULL), 0);
    SAME(shmctl(id, IPC_STAT, &state), -1);
    SAME(bigiron_mem_remove(name, NULL, NULL), -EINVAL);
}

static void posix_memory_has_its_name(uint32_t stripes)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_POSIX, shared);
    struct bigiron_mem_segment *segment, *again = NULL;
    struct stat state;
    char first[100];
    size_t total = 0;
    options.stripes = stripes;
    options.mode = 0600;
    segment = create(&options);
    SAME(bigiron_mem_segment_id(segment), -ENOENT);
    SAME(resident_pages(address(segment), BIG), BIG / page);
    for (uint32_t i = 0; i < stripes; i++) {
        char name[100];
        int file = bigiron_mem_segment_descriptor(segment, i);
        if (stripes == 1)
            snprintf(name, sizeof name, "%s", shared_path);
        else
            snprintf(name, sizeof name, "%s.%u", shared_path, i);
        CHECK(file >= 0);
        SAME(fcntl(file, F_GETFD), FD_CLOEXEC);
        SAME(stat(name, &state), 0);
        SAME(state.st_mode & 07777, 0600);
        SAME(state.st_blocks * 512, state.st_size);
        total += (size_t)state.st_size;
    }
    SAME(total, BIG);
    SAME(bigiron_mem_segment_descriptor(segment, stripes), -ENOENT);

    /* A child attaches it by its name: what it writes at both ends is seen here. */
    {
        int status;
        pid_t child = fork();
        if (child == 0) {
            SAME(bigiron_mem_segment_attach(shared, NULL, &again), 0);
            SAME(bigiron_mem_segment_bytes(again), BIG);
            address(again)[0] = 'a';
            address(again)[BIG - 1] = 'z';
            SAME(bigiron_mem_segment_detach(again), 0);
            _exit(0);
        }
        SAME(waitpid(child, &status, 0), child);
        SAME(status, 0);
    }
    SAME(address(segment)[0], 'a');
    SAME(address(segment)[BIG - 1], 'z');
    SAME(bigiron_mem_segment_create(&options, &again), -EEXIST);
    SAME(bigiron_mem_segment_destroy(segment, NULL, NULL), 0);
    SAME(access(shared_path, F_OK), -1);
    snprintf(first, sizeof first, "%s.0", shared_path);
    SAME(access(first, F_OK), -1);
    SAME(bigiron_mem_segment_attach(shared, &options, &again), -ENOENT);
    CHECK(again == NULL && strstr(text, shared) != NULL);
}

static void memfds_are_shared_by_their_descriptor(void)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_MEMFD, "pool");
    struct bigiron_mem_segment *segment, *again = NULL;
    char name[64], target[64];
    ssize_t length;
    int file;
    options.flags = BIGIRON_MEM_RESERVE;
    segment = create(&options);
    file = bigiron_mem_segment_descriptor(segment, 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    length = readlink(name, target, sizeof target - 1);
    CHECK(length > 0);
    target[length] = '\0';
    CHECK(strncmp(target, "/memfd:pool", 11) == 0);
    address(segment)[BIG / 2] = 'm';
    SAME(bigiron_mem_segment_attach(name, NULL, &again), 0);
    SAME(address(again)[BIG / 2], 'm');
    SAME(bigiron_mem_segment_detach(again), 0);
    SAME(bigiron_mem_segment_detach(segment), 0);
    SAME(fcntl(file, F_GETFD), -1);
}

static void anonymous_memory_is_private(void)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_ANONYMOUS, NULL);
    struct bigiron_mem_segment *segment;
    char *memory;
    options.flags = BIGIRON_MEM_LOCK;
    segment = create(&options);
    memory = address(segment);
    SAME(smaps_kib(memory, BIG, "Locked:"), BIG >> 10);
    SAME(bigiron_mem_segment_destroy(segment, NULL, NULL), 0);
    SAME(resident_pages(memory, BIG), -1);
}

static void placement_counts_what_is_sampled(void)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_ANONYMOUS, NULL);
    struct bigiron_mem_segment *segment;
    uint64_t nodes[64], absent, found = 0;
    options.numa = BIGIRON_MEM_BIND;
    options.nodes = "0";
    segment = create(&options);
    SAME(bigiron_mem_placement(address(segment), BIG, 100, nodes, 64, &absent), 0);
    for (int i = 0; i < 64; i++)
        found += nodes[i];
    SAME(found, 100);
    SAME(nodes[0], 100);
    SAME(absent, 0);
    SAME(bigiron_mem_release(address(segment), BIG, NULL), 0);
    SAME(bigiron_mem_placement(address(segment), BIG, 100, nodes, 64, &absent), 0);
    SAME(absent, 100);
    SAME(bigiron_mem_populate(address(segment), BIG, BIGIRON_MEM_AS_MAPPED, NULL), 0);
    SAME(bigiron_mem_placement(address(segment), BIG, 100, nodes, 0, NULL), -ERANGE);
    SAME(bigiron_mem_placement(address(segment), BIG, 0, nodes, 64, NULL), -EINVAL);
    SAME(bigiron_mem_placement(address(segment), BIG, 9, NULL, 64, NULL), -EINVAL);
    SAME(bigiron_mem_segment_destroy(segment, NULL, NULL), 0);
}

static void files_are_prewarmed(const char *directory)
{
    char path[500];
    char *data = (char *)malloc(BIG);
    void *seen;
    int file, tries = 0;
    snprintf(path, sizeof path, "%s/data", directory);
    file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(file >= 0);
    memset(data, 'd', BIG);
    SAME(write(file, data, BIG), BIG);
    SAME(fsync(file), 0);
    free(data);
    seen = mmap(NULL, BIG, PROT_READ, MAP_SHARED, file, 0);
    CHECK(seen != MAP_FAILED);
    SAME(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
    if (resident_pages(seen, BIG) == BIG / page)
        printf("not tried: prewarming a file: this file system keeps its pages\n");
    /* The kernel may take clean pages back at any moment (DAMON does so). */
    do
        SAME(bigiron_mem_prewarm(path, NULL), 0);
    while (resident_pages(seen, BIG) < BIG / page && ++tries < 1000);
    CHECK(tries < 1000);
    munmap(seen, BIG);
    close(file);
    SAME(bigiron_mem_remove(path, NULL, NULL), -EINVAL);
    SAME(access(path, F_OK), 0);
    SAME(unlink(path), 0);
    SAME(bigiron_mem_prewarm(path, NULL), -ENOENT);
    SAME(bigiron_mem_prewarm("/dev/null", NULL), -EINVAL);
}

static int stop_at_once(void *data, uint64_t done, uint64_t wanted)
{
    ++*(int *)data;
    CHECK(done <= wanted);
    return 1;
}

static void progress_may_give_a_segment_up(void)
{
    struct bigiron_mem_segment_options options = options_of(BIGIRON_MEM_POSIX, shared + 1);
    struct bigiron_mem_options how;
    struct bigiron_mem_outcome outcome;
    struct bigiron_mem_segment *segment = NULL;
    int calls = 0;
    memset(&outcome, 0, sizeof outcome);
    outcome.size = sizeof outcome;
    memset(&how, 0, sizeof how);
    how.size = sizeof how;
    how.progress = stop_at_once;
    how.progress_data = &calls;
    how.outcome = &outcome;
    options.how = &how;
    options.bytes = (size_t)320 << 20;
    SAME(bigiron_mem_segment_create(&options, &segment), -ECANCELED);
    SAME(calls, 1);
    CHECK(segment == NULL && text[0] != '\0');
    CHECK(outcome.bytes > 0 && outcome.bytes < options.bytes);
    SAME(access(shared_path, F_OK), -1);
}

static void wrong_requests_are_told(void)
{
    struct bigiron_mem_segment_options good = options_of(BIGIRON_MEM_ANONYMOUS, NULL), options;
    struct bigiron_mem_segment *segment = NULL;
    char small[8];

#define WRONG(what, error)                                                \
    do {                                                                  \
        options = good;                                                   \
        what;                                                             \
        SAME(bigiron_mem_segment_create(&options, &segment), error);      \
        CHECK(segment == NULL);                                           \
    } while (0)
    WRONG(options.size = 0, -EINVAL);
    WRONG(options.size--, -EINVAL);
    WRONG(options.kind = 0, -EINVAL);
    WRONG(options.kind = 6, -EINVAL);
    WRONG(options.flags = 1u << 20, -EINVAL);
    WRONG(options.flags = BIGIRON_MEM_READ_ONLY, -EINVAL);
    WRONG(options.bytes = 0, -EINVAL);
    WRONG(options.bytes = SIZE_MAX, -EINVAL);
    WRONG(options.mode = 01777, -EINVAL);
    WRONG(options.stripes = 2, -EINVAL);
    WRONG(options.page_size = 12345, -EINVAL);
    WRONG(options.numa = 9, -EINVAL);
    WRONG((options.numa = BIGIRON_MEM_BIND, options.nodes = "3-1"), -EINVAL);
    WRONG(options.numa = BIGIRON_MEM_BIND, -EINVAL);
    CHECK(strstr(text, "nodes") != NULL);
    WRONG(options.kind = BIGIRON_MEM_POSIX, -EINVAL);
    CHECK(strstr(text, "name") != NULL);
    WRONG((options.kind = BIGIRON_MEM_POSIX, options.name = "a/b"), -EINVAL);
    WRONG((options.kind = BIGIRON_MEM_POSIX, options.name = "\xff\xfe"), -EINVAL);
    WRONG(options.bytes = SIZE_MAX / 4, -ENOMEM);
    /* Cut, never past its room. */
    memset(small, 'x', sizeof small);
    WRONG((options.bytes = 0, options.error_text = small, options.error_text_size = 7), -EINVAL);
    SAME(strlen(small), 6);
    SAME(small[7], 'x');
    WRONG((options.bytes = 0, options.error_text_size = 0), -EINVAL);
    WRONG((options.bytes = 0, options.error_text = NULL), -EINVAL);

    SAME(bigiron_mem_segment_create(NULL, &segment), -EINVAL);
    SAME(bigiron_mem_segment_create(&good, NULL), -EINVAL);
    SAME(bigiron_mem_segment_attach(NULL, NULL, &segment), -EINVAL);
    SAME(bigiron_mem_segment_attach("", NULL, &segment), -ENOENT);
    SAME(bigiron_mem_segment_attach("0x7ffffff0", NULL, &segment), -ENOENT);
    SAME(bigiron_mem_segment_attach("999999999", NULL, &segment), -EINVAL);
    SAME(bigiron_mem_segment_detach(NULL), 0);
    SAME(bigiron_mem_segment_destroy(NULL, NULL, NULL), 0);
    SAME(bigiron_mem_segment_lock(NULL, NULL), -EINVAL);
    SAME(bigiron_mem_segment_unlock(NULL), -EINVAL);
    SAME(bigiron_mem_segment_id(NULL), -EINVAL);
    SAME(bigiron_mem_segment_descriptor(NULL, 0), -EINVAL);
    SAME(bigiron_mem_segment_bytes(NULL), 0);
    CHECK(bigiron_mem_segment_address(NULL) == NULL);
    SAME(bigiron_mem_prewarm(NULL, NULL), -EINVAL);
    SAME(bigiron_mem_remove(NULL, NULL, NULL), -EINVAL);
}

int main(int argc, char **argv)
{
    page = sysconf(_SC_PAGESIZE);
    key = 0x0c000000 | (int)getpid();
    snprintf(key_text, sizeof key_text, "0x%x", (unsigned)key);
    snprintf(shared, sizeof shared, "/bigiron-capi-%d", (int)getpid());
    snprintf(shared_path, sizeof shared_path, "/dev/shm%s", shared);
    system_v_segments_are_those_of_ipcs();
    detached_segments_stay_and_can_be_removed();
    posix_memory_has_its_name(1);
    posix_memory_has_its_name(3);
    memfds_are_shared_by_their_descriptor();
    anonymous_memory_is_private();
    placement_counts_what_is_sampled();
    files_are_prewarmed(argc > 1 ? argv[1] : ".");
    progress_may_give_a_segment_up();
    wrong_requests_are_told();
    return 0;
}
