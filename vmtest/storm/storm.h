/* A storm of calls on memory, by a seed. What a call does and shows is printed, and never an address, a number of a
 * segment or of a process: two runs of one seed must print the same, whatever stands between the program and the kernel. */
#ifndef STORM_H
#define STORM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define PAGE 4096UL
/* Pages of an arena: the addresses that one world works on. */
#define PAGES 1024UL
#define SEGMENTS 6
#define MOST_THREADS 32
/* Bytes of /proc/self/smaps that are looked at: some 700 for a mapping. */
#define SMAPS (1UL << 20)

/* A segment of System V shared memory; `id` is -1 where there is none. */
struct segment {
    int id;
    int key_number; /* 0: IPC_PRIVATE */
    size_t size;
    /* Where it is attached in the arena, as an address, or at one of the kernel's choice. */
    void *fixed, *floating;
};

/* What one thread works on. Nobody else touches it. */
struct world {
    uint64_t random;
    uint64_t seed;
    unsigned number; /* of the thread */
    int alone;       /* the process has no other threads: what is of the whole process may be done and looked at */
    unsigned char *arena;
    int file; /* a memfd */
    struct segment segments[SEGMENTS];
    FILE *out;
    char *smaps; /* room for a text, made before anything is locked or limited */
    unsigned long step;
};

uint64_t draw(struct world *world, uint64_t below);
/* One of `count` ints. */
int draw_one(struct world *world, const int *choices, size_t count);
#define DRAW(world, ...) \
    draw_one(world, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

/* A piece of the arena. */
struct range {
    size_t page, pages;
};
struct range draw_range(struct world *world);
void *address_of(const struct world *world, struct range range);

/* Prints the step: its name and arguments, its result, and errno where it failed. */
void tell(struct world *world, long result, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Takes pages away where a call that makes them failed: how many are there then is nobody's promise. The plain call
 * stops at the first that cannot be made, helpers have gone on elsewhere. Leaves errno as it is. */
void forget_after_failure(const struct world *world, struct range range, long result);

/* What can be seen: contents of a piece, mappings of the arena, locked memory, segments. */
uint64_t contents(const struct world *world, struct range range);
void look(struct world *world, struct range range);
void look_at_segments(struct world *world);
size_t locked_bytes(void);
/* Beside those that were there when it was called first; waits a moment for those that end. */
unsigned long threads_of_process(void);

void world_begin(struct world *world, uint64_t seed, unsigned number, int alone, FILE *out);
void world_end(struct world *world);
void world_steps(struct world *world, unsigned long steps);

/* Steps, by what they are about. */
void step_of_mappings(struct world *world);
void step_of_locks(struct world *world);
void step_of_segments(struct world *world);
void step_of_children(struct world *world);
void step_of_whole_process(struct world *world);

/* Modes of the program (main.c): 0 when all was as it must be. */
int run_together(uint64_t seed, unsigned processes, unsigned threads, unsigned long rounds);
int run_signals(uint64_t seed, unsigned long rounds);
int run_victim(uint64_t seed, size_t size, const char *journal);
int run_limits(const char *what, size_t size);
int run_numa(const char *how);
int run_denied(char **command);

#endif
