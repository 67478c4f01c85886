/* Prints the state of a world as it is visible inside its process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storm.h"

static uint64_t mix(uint64_t digest, const void *bytes, size_t length) {
    for (const unsigned char *at = bytes; length > 0; at++, length--)
        digest = (digest ^ *at) * 0x100000001b3UL; /* FNV-1a */
    return digest;
}

uint64_t contents(const struct world *world, struct range range) {
    uint64_t digest = 0xcbf29ce484222325UL;
    static __thread unsigned char page[PAGE];
    for (size_t at = range.page; at < range.page + range.pages; at++) {
        struct iovec to = {page, PAGE};
        struct iovec from = {world->arena + at * PAGE, PAGE};
        int readable = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)PAGE;
        digest = mix(digest, &readable, sizeof readable);
        for (size_t word = 0; readable && word < PAGE; word += 8)
            digest = (digest ^ *(uint64_t *)(page + word)) * 0x100000001b3UL;
    }
    return digest;
}

/* Reads a file of /proc without stdio. exit(3) closes streams as fclose(3) does, and sets the offset back to where the
 * stream was read. A child forked by another thread shares that offset, so its exit would move the offset here. */
static char *read_text(const char *path, char *text, size_t room) {
    size_t length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t more = 1; more > 0 && length + 1 < room; length += more > 0 ? (size_t)more : 0)
        more = read(file, text + length, room - length - 1);
    close(file);
    text[length] = 0;
    return text;
}

/* Returns the number after a name in /proc/self/status. */
static unsigned long status(const char *name) {
    char text[8192], *found = strstr(read_text("/proc/self/status", text, sizeof text), name);
    return found ? strtoul(found + strlen(name), NULL, 10) : 0;
}

size_t locked_bytes(void) { return status("VmLck:") * 1024; }

static unsigned long own_threads(void) { return status("Threads:"); }

unsigned long threads_of_process(void) {
    /* A sanitizer's own threads come and go. */
    if (getenv("STORM_SANITIZER"))
        return 0;
    static unsigned long at_begin;
    if (!at_begin)
        at_begin = own_threads();
    /* A joined thread remains visible for a moment. */
    for (int look = 0; look < 2000 && own_threads() > at_begin; look++)
        usleep(500);
    return own_threads() - at_begin;
}

static void one_flag_less(char *flags, const char *flag) {
    char *found = strstr(flags, flag);
    if (found)
        memmove(found, found + strlen(flag), strlen(found + strlen(flag)) + 1);
}

/* A mapping in the arena; bounds in pages. */
struct mapping {
    size_t start, end;
    char text[256];
};

static void show(struct world *world, struct mapping *shown, const struct mapping *next) {
    if (next && shown->end == next->start && strcmp(shown->text, next->text) == 0) {
        shown->end = next->end;
        return;
    }
    if (shown->end > 0)
        fprintf(world->out, "  %zu-%zu%s\n", shown->start, shown->end, shown->text);
    if (next)
        *shown = *next;
}

/* With STORM_EXACT, everything is printed. Without it, the following are omitted: requests for huge pages; boundaries
 * between adjacent mappings that the kernel did not merge because of them; the accounting of committed memory, which
 * depends on merged neighbours (anon_vma in mprotect_fixup of mm/mprotect.c); and the number of resident pages.
 *
 * The number of resident pages is printed for locked memory and for private mappings. For files and segments, the
 * kernel maps additional pages (do_fault_around of mm/memory.c), and removes some that contain only zeros even without
 * swap (the comment at shmem_recalc_inode of mm/shmem.c). */
void look(struct world *world, struct range range) {
    fprintf(world->out, "%lu contents %zu+%zu %016lx\n", world->step, range.page, range.pages, contents(world, range));
    char access[8], *rest = read_text("/proc/self/smaps", world->smaps, SMAPS);
    size_t locked = 0, resident = 0, own = 0;
    unsigned long offset, from, to;
    int inside = 0, system_v = 0, exact = getenv("STORM_EXACT") != NULL;
    struct mapping shown = {0, 0, ""}, next;
    const size_t first = (size_t)world->arena, last = first + PAGES * PAGE;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        if (sscanf(line, "%lx-%lx %4s %lx", &from, &to, access, &offset) == 4) {
            inside = from >= first && from < last;
            system_v = strstr(line, "SYSV") != NULL;
            next.start = (from - first) / PAGE;
            next.end = (to - first) / PAGE;
        } else if (inside && (sscanf(line, "Rss: %zu", &resident) == 1 || sscanf(line, "Anonymous: %zu", &own) == 1)) {
            continue;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            one_flag_less(line, " hg");
            if (!exact)
                one_flag_less(line, " ac");
            int is_locked = strstr(line, " lo") != NULL;
            size_t bytes = (next.end - next.start) * PAGE;
            if (is_locked)
                locked += bytes;
            const char *whole = is_locked && resident * 1024 == bytes ? " all there" : "";
            if (exact)
                snprintf(next.text, sizeof next.text, " %s %lx%s%s %zu KiB%.150s", access, offset,
                         system_v ? " SYSV" : "", whole, own, line + 8);
            else
                snprintf(next.text, sizeof next.text, " %s%s%.150s", access, system_v ? " SYSV" : "", line + 8);
            show(world, &shown, &next);
        }
    }
    show(world, &shown, NULL);
    fprintf(world->out, "  locked %zu\n", locked);
}

void look_at_segments(struct world *world) {
    for (int at = 0; at < SEGMENTS; at++) {
        struct segment *segment = &world->segments[at];
        struct shmid_ds is;
        if (segment->id < 0)
            continue;
        if (shmctl(segment->id, IPC_STAT, &is) != 0) {
            tell(world, -1, "segment %d", at);
            continue;
        }
        /* A fork by another thread briefly attaches all segments. */
        long attached = world->alone ? (long)is.shm_nattch : -2;
        tell(world, attached, "segment %d: %zu bytes, mode %o, made by %s, last %s, attached %d, detached %d", at,
             is.shm_segsz, is.shm_perm.mode, is.shm_cpid == getpid() ? "me" : "another",
             !world->alone || is.shm_lpid == getpid() ? "me" : is.shm_lpid == 0 ? "nobody" : "another",
             !world->alone || is.shm_atime != 0, !world->alone || is.shm_dtime != 0);
    }
}
