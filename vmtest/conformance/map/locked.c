/* MAP_LOCKED: resident pages, accounting, and errors when a limit is exceeded. */
#include "say.h"

static size_t size_now;

static void within(void)
{
	size_t size = size_now;
	limit(RLIMIT_MEMLOCK, size + PAGE);
	char *at = SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_LOCKED, -1, 0));
	say_resident("locked", at, size);
	say_mappings("locked", at, size);
	say_locked("locked");
	SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_LOCKED, -1, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_LOCKED | MAP_POPULATE, -1, 0));
	SAY_ADDRESS(mmap(NULL, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	SAY_ADDRESS(mmap(NULL, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	SAY(munmap(at, size));
	say_locked("unmapped");
	at = SAY_ADDRESS(mmap(NULL, size, PROT_NONE, ANON | MAP_LOCKED, -1, 0));
	if (at != FAILED) {
		say_resident("without access", at, size);
		SAY(munmap(at, size));
	}
	at = SAY_ADDRESS(mmap(NULL, size, RW, SHARED | MAP_LOCKED, -1, 0));
	if (at != FAILED) {
		say_resident("shared", at, size);
		SAY(mmap(at, size, RW, ANON | MAP_LOCKED | MAP_FIXED, -1, 0) == at);
		say_locked("instead of it");
		SAY(munmap(at, size));
	}
	say_locked("at the end");
}

static void beyond(void)
{
	limit(RLIMIT_MEMLOCK, size_now / 2 / PAGE * PAGE);
	SAY_ADDRESS(mmap(NULL, size_now, RW, ANON | MAP_LOCKED, -1, 0));
	char *at = map(size_now, RW, ANON);
	fill(at, size_now, 4);
	/* Does a refused new mapping preserve the old one? */
	SAY_ADDRESS(mmap(at, size_now, RW, ANON | MAP_LOCKED | MAP_FIXED, -1, 0));
	say_mappings("refused", at, size_now);
	SAY(wrong(at, size_now, 4));
	limit(RLIMIT_MEMLOCK, 0);
	SAY_ADDRESS(mmap(NULL, size_now, RW, ANON | MAP_LOCKED, -1, 0));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable); i++) {
		size_now = lockable[i];
		printf("-- %zu KiB\n", size_now / KB);
		in_child("within", within);
		in_child("beyond", beyond);
	}
	size_now = 48 * MB;
	in_child("far beyond", beyond);
	return 0;
}
