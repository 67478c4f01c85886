/* RLIMIT_MEMLOCK: memory that counts towards it, and the state after it is exceeded. */
#include "say.h"

static size_t size_now;

static void below(void)
{
	size_t size = size_now;
	char *at = map(2 * size, RW, ANON);
	limit(RLIMIT_MEMLOCK, size);
	SAY(mlock(at, size + PAGE));
	say_locked("too much");
	say_resident("too much", at, 2 * size);
	SAY(mlock(at, size));
	say_locked("just enough");
	/* Memory that is locked already is not counted again. */
	SAY(mlock(at, size));
	SAY(mlock2(at, size, MLOCK_ONFAULT));
	SAY(mlock(at, size));
	SAY(mlock(at + PAGE, size));
	say_mappings("a page more", at, 2 * size);
	SAY(munlock(at, PAGE));
	SAY(mlock(at + PAGE, size));
	say_mappings("moved by a page", at, 2 * size);
	say_resident("moved by a page", at, 2 * size);
	SAY(munmap(at + PAGE, size));
	say_locked("unmapped");
	char *other = map(size, RW, ANON);
	SAY(mlock(other, size));
	say_locked("another");
	SAY_ADDRESS(mmap(NULL, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	SAY(munmap(other, size));
	SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_LOCKED, -1, 0));
	say_locked("at the end");
}

static void none(void)
{
	char *at = map(size_now, RW, ANON);
	limit(RLIMIT_MEMLOCK, 0);
	SAY(mlock(at, size_now));
	SAY(mlock(at, 0));
	SAY(mlock2(at, size_now, MLOCK_ONFAULT));
	SAY(mlock2(at, size_now, 4));
	SAY(mlockall(MCL_CURRENT));
	SAY(mlockall(MCL_FUTURE));
	SAY(mlockall(8));
	SAY(munlock(at, size_now));
	SAY(munlockall());
	SAY_ADDRESS(mmap(NULL, size_now, RW, ANON | MAP_LOCKED, -1, 0));
	say_locked("at the end");
	say_resident("at the end", at, size_now);
}

/* The limit is lowered below the amount of locked memory. */
static void lowered(void)
{
	char *at = map(size_now, RW, ANON);
	SAY(mlock(at, size_now));
	limit(RLIMIT_MEMLOCK, PAGE);
	SAY(mlock(at, size_now));
	SAY(mlock(at, PAGE));
	SAY(munlock(at, size_now));
	SAY(mlock(at, size_now));
	SAY(mlock(at, PAGE));
	say_locked("at the end");
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable) - 1; i++) {
		size_now = lockable[i];
		printf("-- %zu KiB\n", size_now / KB);
		in_child("below", below);
		in_child("none", none);
		in_child("lowered", lowered);
	}
	size_now = 3 * MB;
	in_child("below, large", below);
	size_now = 48 * MB;
	in_child("none, large", none);
	return 0;
}
