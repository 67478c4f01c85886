/* Random calls on memory, determined by a seed. Results and visible effects are printed without addresses or ids of
 * segments and processes: two runs with the same seed must print the same, with and without a library. */
#ifndef STORM_H
#define STORM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define PAGE 4096UL
/* Pages of an arena, the address range of one world. */
#define PAGES 1024UL
#define SEGMENTS 6
#define MOST_THREADS 32
/* Bytes of /proc/self/smaps that are read; a mapping takes about 700. */
#define SMAPS (1UL << 20)

/* A System V segment; `id` is -1 if none exists. */
struct segment {
    int id;
    int key_number; /* 0: IPC_PRIVATE */
    size_t size;
    /* Addresses of its attachments: one in the arena, one chosen by the kernel. */
    void *fixed, *floating;
};

/* State of one thread, which no other thread accesses. */
struct world {
    uint64_t random;
    uint64_t seed;
    unsigned number; /* number of the thread */
    int alone;       /* true if the process has no other threads: the whole process may then be changed and examined */
    unsigned char *arena;
    int file; /* a memfd */
    struct segment segments[SEGMENTS];
    FILE *out;
    char *smaps; /* buffer, allocated before memory is locked or limited */
    unsigned long step;
};

uint64_t draw(struct world *world, uint64_t below);
/* Returns one of `count` ints. */
int draw_one(struct world *world, const int *choices, size_t count);
#define DRAW(world, ...) \
    draw_one(world, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

/* A part of the arena. */
struct range {
    size_t page, pages;
};
struct range draw_range(struct world *world);
void *address_of(const struct world *world, struct range range);

/* Prints a step: name and arguments, result, and errno after a failure. */
void tell(struct world *world, long result, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* After a failed call, removes the pages that it populated, as their number is unspecified: the plain call stops at the
 * first page that it cannot populate, while helpers may have populated later ones. Preserves errno. */
void forget_after_failure(const struct world *world, struct range range, long result);

/* Visible state: contents of a range, mappings of the arena, locked memory, segments. */
uint64_t contents(const struct world *world, struct range range);
void look(struct world *world, struct range range);
void look_at_segments(struct world *world);
size_t locked_bytes(void);
/* Returns the number of threads beyond those at the first call; waits briefly for threads that are ending. */
unsigned long threads_of_process(void);

void world_begin(struct world *world, uint64_t seed, unsigned number, int alone, FILE *out);
void world_end(struct world *world);
void world_steps(struct world *world, unsigned long steps);

/* Steps, by subject. */
void step_of_mappings(struct world *world);
void step_of_locks(struct world *world);
void step_of_segments(struct world *world);
void step_of_children(struct world *world);
void step_of_whole_process(struct world *world);

/* Modes of the program (main.c); return 0 on success. */
int run_together(uint64_t seed, unsigned processes, unsigned threads, unsigned long rounds);
int run_signals(uint64_t seed, unsigned long rounds);
int run_victim(uint64_t seed, size_t size, const char *journal);
int run_limits(const char *what, size_t size);
int run_numa(const char *how);
int run_denied(char **command);

#endif
