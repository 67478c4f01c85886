/* mlock of ranges with holes or inaccessible pages: locked ranges and resident pages afterwards. */
#include "say.h"

static void around(const char *what, size_t size, size_t hole, int protection)
{
	printf("-- %s of %zu KiB, at page %zu\n", what, size / KB, hole / PAGE);
	for (int onfault = 0; onfault < 2; onfault++) {
		char *at = map(size, RW, ANON);
		if (protection < 0)
			munmap(at + hole, PAGE);
		else
			mprotect(at + hole, PAGE, protection);
		if (onfault)
			SAY(mlock2(at, size, MLOCK_ONFAULT));
		else
			SAY(mlock(at, size));
		say_locked("after");
		say_mappings("after", at, size);
		say_resident("after", at, size);
		SAY(munlock(at, size));
		say_locked("unlocked");
		say_mappings("unlocked", at, size);
		munmap(at, size);
		munlockall();
	}
}

int main(void)
{
	for (size_t i = 1; i < COUNT(lockable); i++) {
		size_t size = lockable[i];
		size_t places[] = {0, PAGE, size / 2 / PAGE * PAGE, size - PAGE};
		for (size_t j = 0; j < COUNT(places); j++) {
			around("a hole", size, places[j], -1);
			around("a page without access", size, places[j], PROT_NONE);
			around("a page to read", size, places[j], PROT_READ);
			around("a page to execute", size, places[j], PROT_EXEC);
		}
	}
	return 0;
}
