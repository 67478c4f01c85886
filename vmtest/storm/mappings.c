/* Steps that map, unmap, move and change memory in the arena. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "storm.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

void forget_after_failure(const struct world *world, struct range range, long result) {
    int error = errno;
    /* Includes locked pages, which older kernels keep. */
    if (result != 0 && madvise(address_of(world, range), range.pages * PAGE, MADV_DONTNEED_LOCKED) != 0)
        madvise(address_of(world, range), range.pages * PAGE, MADV_DONTNEED);
    errno = error;
}

static int draw_protection(struct world *world) {
    return DRAW(world, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ, PROT_WRITE,
                PROT_NONE);
}

static void map(struct world *world) {
    struct range range = draw_range(world);
    int protection = draw_protection(world);
    int more = DRAW(world, 0, MAP_POPULATE, MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE, MAP_POPULATE | MAP_LOCKED,
                    MAP_POPULATE | MAP_NONBLOCK);
    int kind = DRAW(world, MAP_PRIVATE, MAP_PRIVATE, MAP_SHARED);
    int placed = DRAW(world, MAP_FIXED, MAP_FIXED, MAP_FIXED, MAP_FIXED_NOREPLACE);
    int of_file = draw(world, 3) == 0;
    off_t offset = of_file ? (off_t)(draw(world, PAGES / 4) * PAGE) : 0;
    if (of_file && draw(world, 16) == 0)
        offset += 1; /* EINVAL */
    if (!of_file)
        kind |= MAP_ANONYMOUS;
    void *made = mmap(address_of(world, range), range.pages * PAGE, protection, kind | more | placed,
                      of_file ? world->file : -1, offset);
    long result = made == MAP_FAILED ? -1 : made == address_of(world, range) ? 0 : 1;
    tell(world, result, "mmap %zu+%zu %d %#x %#x %ld", range.page, range.pages, protection, kind, more | placed,
         (long)offset);
}

/* Maps at an address chosen by the kernel; writes, reads and unmaps it. */
static void map_anywhere(struct world *world) {
    size_t length = (1 + draw(world, 300)) * PAGE - draw(world, 2) * 100;
    int more = DRAW(world, 0, MAP_POPULATE, MAP_LOCKED, MAP_POPULATE | MAP_LOCKED);
    int kind = DRAW(world, MAP_PRIVATE, MAP_PRIVATE, MAP_SHARED) | MAP_ANONYMOUS;
    unsigned char *made = mmap(NULL, length, PROT_READ | PROT_WRITE, kind | more, -1, 0);
    tell(world, made == MAP_FAILED ? -1 : 0, "mmap NULL %zu %#x %#x", length, kind, more);
    if (made == MAP_FAILED)
        return;
    unsigned long sum = 0;
    for (size_t at = 0; at < length; at += PAGE)
        sum += made[at];
    memset(made, 0x5a, length);
    sum += made[length - 1];
    /* Unmaps a page in the middle first, then the memory on both sides: another thread may have mapped memory in the
     * hole. */
    size_t middle = length / 2 / PAGE * PAGE;
    long first = munmap(made + middle, PAGE);
    long rest = middle ? munmap(made, middle) : 0;
    if (length > middle + PAGE)
        rest |= munmap(made + middle + PAGE, length - middle - PAGE);
    tell(world, first * 2 + rest, "munmap %lu", sum);
}

static void unmap(struct world *world) {
    struct range range = draw_range(world);
    unsigned char *address = address_of(world, range);
    size_t length = range.pages * PAGE;
    switch (draw(world, 12)) {
    case 0: address += 1; break;     /* EINVAL */
    case 1: length = 0; break;       /* EINVAL */
    case 2: length -= PAGE / 2; break; /* rounded up to the whole page */
    case 3: length = ~0UL; break;    /* EINVAL */
    }
    tell(world, munmap(address, length), "munmap %zu %zu", (size_t)(address - world->arena), length);
}

static void move(struct world *world) {
    struct range range = draw_range(world), target = draw_range(world);
    size_t length = range.pages * PAGE, wanted = target.pages * PAGE;
    int flags = DRAW(world, 0, MREMAP_MAYMOVE | MREMAP_FIXED);
    void *made = mremap(address_of(world, range), length, wanted, flags, address_of(world, target));
    long result = made == MAP_FAILED ? -1 : made == address_of(world, range) ? 0 : 1;
    tell(world, result, "mremap %zu+%zu %#x %zu+%zu", range.page, range.pages, flags, target.page, target.pages);
}

static void protect(struct world *world) {
    struct range range = draw_range(world);
    int protection = draw_protection(world);
    tell(world, mprotect(address_of(world, range), range.pages * PAGE, protection), "mprotect %zu+%zu %d", range.page,
         range.pages, protection);
}

static void advise(struct world *world) {
    struct range range = draw_range(world);
    int advice = DRAW(world, MADV_DONTNEED, MADV_WILLNEED, MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_DONTFORK,
                      MADV_DOFORK, MADV_REMOVE, MADV_NORMAL, MADV_WIPEONFORK, MADV_KEEPONFORK);
    int result = madvise(address_of(world, range), range.pages * PAGE, advice);
    if (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE)
        forget_after_failure(world, range, result);
    tell(world, result, "madvise %zu+%zu %d", range.page, range.pages, advice);
}

/* Writes a mark to each writable page. The kernel writes it: for other pages it returns EFAULT instead of raising a
 * signal. */
static void write_pages(struct world *world) {
    struct range range = draw_range(world);
    long written = 0;
    for (size_t page = 0; page < range.pages; page++) {
        uint64_t mark = world->step << 20 | (range.page + page);
        struct iovec from = {&mark, sizeof mark};
        struct iovec to = {world->arena + (range.page + page) * PAGE + 8 * (page % 512), sizeof mark};
        written += process_vm_writev(getpid(), &from, 1, &to, 1, 0) == sizeof mark;
    }
    tell(world, written, "write %zu+%zu", range.page, range.pages);
}

void step_of_mappings(struct world *world) {
    switch (draw(world, 14)) {
    case 0: case 1: case 2: case 3: map(world); break;
    case 4: map_anywhere(world); break;
    case 5: case 6: case 7: unmap(world); break;
    case 8: move(world); break;
    case 9: protect(world); break;
    case 10: advise(world); break;
    default: write_pages(world);
    }
}
