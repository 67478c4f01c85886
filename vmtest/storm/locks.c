/* Steps that lock parts of memory, or all of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "storm.h"

static int locked(struct range range, const struct world *world, int result) {
    int error = errno;
    if (result != 0)
        munlock(address_of(world, range), range.pages * PAGE);
    errno = error;
    forget_after_failure(world, range, result);
    return result;
}

void step_of_locks(struct world *world) {
    struct range range = draw_range(world);
    unsigned char *address = address_of(world, range);
    size_t length = range.pages * PAGE;
    uint64_t odd = draw(world, 16);
    if (odd == 0)
        address += 100; /* extended to whole pages */
    else if (odd == 1)
        length = ~0UL - PAGE; /* EINVAL or ENOMEM */
    else if (odd == 2)
        length = 0;
    size_t at = (size_t)(address - world->arena);
    switch (draw(world, 6)) {
    case 0: case 1: tell(world, locked(range, world, mlock(address, length)), "mlock %zu %zu", at, length); break;
    case 2: case 3: tell(world, munlock(address, length), "munlock %zu %zu", at, length); break;
    default: {
        unsigned flags = (unsigned)DRAW(world, 0, MLOCK_ONFAULT, MLOCK_ONFAULT, 2);
        tell(world, locked(range, world, mlock2(address, length, flags)), "mlock2 %zu %zu %u", at, length, flags);
    }
    }
}

void step_of_whole_process(struct world *world) {
    int flags = DRAW(world, MCL_CURRENT, MCL_CURRENT | MCL_ONFAULT, MCL_CURRENT | MCL_FUTURE, MCL_FUTURE,
                     MCL_FUTURE | MCL_ONFAULT, MCL_ONFAULT, 0, 64);
    tell(world, mlockall(flags), "mlockall %d", flags);
    look(world, draw_range(world));
    /* With MCL_FUTURE, later mappings are locked on creation. */
    for (uint64_t more = draw(world, 6); more > 0; more--) {
        world->step++;
        step_of_mappings(world);
    }
    look(world, draw_range(world));
    tell(world, munlockall(), "munlockall");
}
