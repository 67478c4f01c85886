/* A world: its random numbers, its arena, and the choice of steps. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "storm.h"

/* Address of the first arena: far from addresses that the kernel chooses, with gaps between arenas, and in a range that
 * ThreadSanitizer leaves to programs. */
#define FIRST_ARENA 0x7ea000000000UL
#define ARENA_STRIDE 0x100000000UL

uint64_t draw(struct world *world, uint64_t below) {
    /* splitmix64 */
    uint64_t value = world->random += 0x9e3779b97f4a7c15UL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9UL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebUL;
    return (value ^ (value >> 31)) % below;
}

int draw_one(struct world *world, const int *choices, size_t count) { return choices[draw(world, count)]; }

struct range draw_range(struct world *world) {
    struct range range;
    range.page = draw(world, PAGES);
    size_t most = DRAW(world, 4, 64, 64, 512);
    range.pages = 1 + draw(world, most);
    if (range.page + range.pages > PAGES)
        range.pages = PAGES - range.page;
    return range;
}

void *address_of(const struct world *world, struct range range) { return world->arena + range.page * PAGE; }

void tell(struct world *world, long result, const char *format, ...) {
    int error = errno;
    va_list arguments;
    fprintf(world->out, "%lu ", world->step);
    va_start(arguments, format);
    vfprintf(world->out, format, arguments);
    va_end(arguments);
    if (result == -1)
        fprintf(world->out, " = %s\n", strerrorname_np(error));
    else
        fprintf(world->out, " = %ld\n", result);
}

void world_begin(struct world *world, uint64_t seed, unsigned number, int alone, FILE *out) {
    memset(world, 0, sizeof(*world));
    world->random = world->seed = seed;
    world->number = number;
    world->alone = alone;
    world->out = out;
    world->smaps = malloc(SMAPS);
    world->arena = (unsigned char *)(FIRST_ARENA + number * ARENA_STRIDE);
    for (int at = 0; at < SEGMENTS; at++)
        world->segments[at].id = -1;
    world->file = memfd_create("storm", MFD_CLOEXEC);
    if (!world->smaps || world->file < 0 || ftruncate(world->file, PAGES / 4 * PAGE) != 0) {
        perror("storm: begin");
        exit(2);
    }
}

void world_end(struct world *world) {
    munmap(world->arena, PAGES * PAGE);
    for (int at = 0; at < SEGMENTS; at++) {
        struct segment *segment = &world->segments[at];
        if (segment->floating)
            shmdt(segment->floating);
        if (segment->id >= 0)
            shmctl(segment->id, IPC_RMID, NULL);
    }
    close(world->file);
    free(world->smaps);
}

void world_steps(struct world *world, unsigned long steps) {
    for (unsigned long end = world->step + steps; world->step < end; world->step++) {
        uint64_t what = draw(world, 100);
        if (what < 45)
            step_of_mappings(world);
        else if (what < 68)
            step_of_locks(world);
        else if (what < 93)
            step_of_segments(world);
        else if (what < 96)
            step_of_children(world);
        else if (world->alone)
            step_of_whole_process(world);
        if (world->step % 4 == 3)
            look(world, draw_range(world));
        if (world->step % 16 == 15)
            look_at_segments(world);
    }
}
