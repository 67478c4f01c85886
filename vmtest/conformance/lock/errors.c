/* Errors of mlock, mlock2 and munlock. */
#include "say.h"

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	char *at = map(size + 2 * PAGE, RW, ANON) + PAGE;
	munmap(at - PAGE, PAGE);
	munmap(at + size, PAGE);
	SAY(mlock(at, 0));
	SAY(munlock(at, 0));
	SAY(mlock2(at, 0, 0));
	SAY(mlock2(at, size, 2));
	SAY(mlock2(at, size, ~0u));
	SAY(mlock2(at, size, MLOCK_ONFAULT | 8));
	SAY(mlock(at, (size_t)-1));
	SAY(mlock(at, SIZE_MAX - (uintptr_t)at));
	SAY(munlock(at, SIZE_MAX - (uintptr_t)at));
	SAY(mlock((void *)(~0UL - PAGE), 2 * PAGE));
	say_locked("nothing");
	say_resident("nothing", at, size);
	/* Addresses need not be aligned to pages. */
	SAY(mlock(at + 1, size - 2));
	say_locked("rounded");
	say_resident("rounded", at, size);
	SAY(munlock(at + size - 1, 1));
	say_mappings("the last page unlocked", at, size);
	SAY(munlock(at + 7, size - 7));
	say_locked("unlocked");
	SAY(munlock(at, size));
	/* Ranges that extend past the mapping. */
	SAY(mlock(at, size + 1));
	say_mappings("too long", at, size);
	SAY(munlock(at, size + 1));
	say_mappings("too long unlocked", at, size);
	SAY(mlock(at - 1, 2));
	say_mappings("too early", at, size);
	SAY(munlock(at, size));
	SAY(mlock2(at, size + PAGE, MLOCK_ONFAULT));
	say_mappings("too long on fault", at, size);
	SAY(munmap(at, size));
	SAY(mlock(at, size));
	SAY(mlock2(at, size, MLOCK_ONFAULT));
	SAY(munlock(at, size));
	say_locked("at the end");
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable); i++)
		size(lockable[i]);
	return 0;
}
