/* Steps on System V segments. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/shm.h>
#include <unistd.h>

#include "storm.h"

static key_t key_of(const struct world *world, int number) {
    return number ? (key_t)(0x5b000000 | (getpid() & 0xffff) << 8 | (int)world->number << 4 | number) : IPC_PRIVATE;
}

static struct segment *draw_segment(struct world *world) { return &world->segments[draw(world, SEGMENTS)]; }

static void get(struct world *world, struct segment *segment) {
    if (segment->id >= 0 || segment->floating)
        return;
    int number = DRAW(world, 0, 0, 1, 2, 3);
    size_t size = 1 + draw(world, DRAW(world, 3, 64, 256) * PAGE);
    int flags = DRAW(world, IPC_CREAT | 0600, IPC_CREAT | 0600, IPC_CREAT | IPC_EXCL | 0640, 0600);
    int id = shmget(key_of(world, number), size, flags);
    tell(world, id < 0 ? -1 : 0, "shmget %d %zu %o", number, size, (unsigned)flags);
    /* A key identifies one segment: it needs only one entry. */
    for (int at = 0; at < SEGMENTS; at++)
        if (world->segments[at].id == id)
            return;
    segment->id = id;
    segment->key_number = number;
    segment->size = size;
    segment->fixed = NULL;
}

static void attach(struct world *world, struct segment *segment) {
    struct range range = draw_range(world);
    int flags = DRAW(world, 0, SHM_REMAP, SHM_REMAP, SHM_REMAP | SHM_RDONLY, SHM_RND);
    size_t pages = (segment->size + PAGE - 1) / PAGE;
    if (range.page + pages > PAGES)
        range.page = PAGES - pages;
    unsigned char *where = address_of(world, range);
    if (flags == SHM_RND)
        where += draw(world, 300);
    else if (draw(world, 16) == 0)
        where += 1; /* EINVAL */
    unsigned char *made = shmat(segment->id, where, flags);
    tell(world, made == (void *)-1 ? -1 : (long)(made - world->arena), "shmat %zu %#o", (size_t)(where - world->arena),
         (unsigned)flags);
    if (made != (void *)-1)
        segment->fixed = made;
}

static void attach_anywhere(struct world *world, struct segment *segment) {
    if (segment->floating)
        return;
    int flags = DRAW(world, 0, 0, SHM_RDONLY, SHM_REMAP); /* EINVAL for the last */
    unsigned char *made = shmat(segment->id, NULL, flags);
    tell(world, made == (void *)-1 ? -1 : 0, "shmat NULL %#o", (unsigned)flags);
    if (made == (void *)-1)
        return;
    segment->floating = made;
    unsigned long sum = 0;
    for (size_t at = 0; at < segment->size; at += PAGE) {
        sum = sum * 31 + made[at];
        if (flags == 0)
            made[at]++;
    }
    tell(world, 0, "read %lu", sum);
}

static void detach(struct world *world, struct segment *segment) {
    unsigned char *where = segment->fixed;
    switch (draw(world, 8)) {
    case 0: where = address_of(world, draw_range(world)); break; /* any existing mapping: most often EINVAL */
    case 1: where += 1; break;                                   /* EINVAL */
    case 2: case 3: case 4:
        if (segment->floating) {
            tell(world, shmdt(segment->floating), "shmdt floating");
            segment->floating = NULL;
            return;
        }
    }
    size_t at = where < world->arena ? ~0UL : (size_t)(where - world->arena);
    tell(world, shmdt(where), "shmdt %zu", at);
}

static void forget(struct world *world, struct segment *segment) {
    tell(world, shmctl(segment->id, IPC_RMID, NULL), "IPC_RMID");
    /* IPC_RMID keeps a segment while it is attached; a fork by another thread briefly attaches it. */
    if (draw(world, 3) == 0 && world->alone) {
        struct shmid_ds is;
        long result = shmctl(segment->id, IPC_STAT, &is);
        tell(world, result, "IPC_STAT %o", result ? 0 : is.shm_perm.mode);
        tell(world, shmctl(segment->id, IPC_RMID, NULL), "IPC_RMID again");
    }
    if (segment->floating) {
        tell(world, shmdt(segment->floating), "shmdt floating");
        segment->floating = NULL;
    }
    segment->id = -1;
}

static void control(struct world *world, struct segment *segment) {
    struct shmid_ds is;
    switch (draw(world, 5)) {
    case 0: case 1: tell(world, shmctl(segment->id, SHM_LOCK, NULL), "SHM_LOCK"); break;
    case 2: tell(world, shmctl(segment->id, SHM_UNLOCK, NULL), "SHM_UNLOCK"); break;
    case 3:
        if (shmctl(segment->id, IPC_STAT, &is) == 0) {
            is.shm_perm.mode = (unsigned short)DRAW(world, 0600, 0660, 0644);
            tell(world, shmctl(segment->id, IPC_SET, &is), "IPC_SET %o", is.shm_perm.mode);
        }
        break;
    default: tell(world, shmctl(-5, IPC_RMID, NULL), "IPC_RMID of nothing");
    }
}

void step_of_segments(struct world *world) {
    struct segment *segment = draw_segment(world);
    if (segment->id < 0) {
        get(world, segment);
        return;
    }
    switch (draw(world, 12)) {
    case 0: case 1: case 2: case 3: attach(world, segment); break;
    case 4: case 5: attach_anywhere(world, segment); break;
    case 6: case 7: case 8: detach(world, segment); break;
    case 9: forget(world, segment); break;
    default: control(world, segment);
    }
}
