/* Ranges that are locked and unlocked in parts: resident pages, mappings, and the total. */
#include "say.h"

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	char *at = map(size, RW, ANON);
	size_t quarter = size / 4 / PAGE * PAGE;
	SAY(mlock(at + quarter, quarter));
	say_resident("the second quarter", at, size);
	say_mappings("the second quarter", at, size);
	SAY(mlock2(at + 2 * quarter, quarter, MLOCK_ONFAULT));
	say_resident("the third on fault", at, size);
	say_locked("the third on fault");
	at[2 * quarter] = 1;
	at[3 * quarter - 1] = 1;
	say_resident("touched", at, size);
	SAY(mlock2(at, size, MLOCK_ONFAULT));
	say_resident("all on fault", at, size);
	say_locked("all on fault");
	SAY(mlock(at, 2 * quarter));
	say_resident("the first half", at, size);
	SAY(mlock(at, size));
	say_resident("all", at, size);
	SAY(not_zero(at, size));
	SAY(munlock(at + quarter, 2 * quarter));
	say_mappings("the middle unlocked", at, size);
	say_resident("the middle unlocked", at, size);
	say_locked("the middle unlocked");
	SAY(madvise(at, quarter, MADV_DONTNEED));
	SAY(madvise(at + quarter, quarter, MADV_DONTNEED));
	say_resident("given back", at, size);
	SAY(mlock(at + quarter, PAGE));
	say_resident("a page again", at, size);
	SAY(munmap(at + 2 * quarter, size - 2 * quarter));
	say_locked("half unmapped");
	SAY(mprotect(at, 2 * quarter, PROT_READ));
	say_mappings("to read only", at, size);
	SAY(munmap(at, size));
	say_locked("unmapped");
}

int main(void)
{
	size(4 * PAGE);
	for (size_t i = 1; i < COUNT(lockable); i++)
		size(lockable[i]);
	return 0;
}
