/* mlockall: flags, limits, and the effect on later mappings. */
#include "say.h"

static void flags(void)
{
	SAY(mlockall(0));
	SAY(mlockall(8));
	SAY(mlockall(~0));
	SAY(mlockall(MCL_ONFAULT));
	SAY(munlockall());
	SAY(munlockall());
}

/* With the library loaded the process has more memory to lock, so the printed numbers exclude memory that existed
 * before. */
static void current(void)
{
	char *at = map(1 * MB, RW, ANON), *none = map(1 * MB, PROT_NONE, ANON), *shared = map(1 * MB, RW, SHARED);
	SAY(mlockall(MCL_CURRENT));
	SAY(status_of("VmLck") >= 3072);
	say_resident("private", at, 1 * MB);
	say_resident("without access", none, 1 * MB);
	say_resident("shared", shared, 1 * MB);
	say_mappings("private", at, 1 * MB);
	say_mappings("without access", none, 1 * MB);
	at = map(1 * MB, RW, ANON);
	say_resident("new", at, 1 * MB);
	say_mappings("new", at, 1 * MB);
	SAY(munlockall());
	say_locked("unlocked");
	say_resident("still there", shared, 1 * MB);
}

static void future(void)
{
	char *old = map(1 * MB, RW, ANON);
	SAY(mlockall(MCL_FUTURE));
	say_locked("before");
	say_resident("old", old, 1 * MB);
	char *at = SAY_ADDRESS(mmap(NULL, 1 * MB, RW, ANON, -1, 0));
	say_resident("new", at, 1 * MB);
	say_locked("new");
	char *none = SAY_ADDRESS(mmap(NULL, 1 * MB, PROT_NONE, ANON, -1, 0));
	say_resident("without access", none, 1 * MB);
	say_locked("without access");
	char *populated = SAY_ADDRESS(mmap(NULL, 1 * MB, RW, ANON | MAP_POPULATE, -1, 0));
	say_resident("populated", populated, 1 * MB);
	SAY(munmap(populated, 1 * MB));
	say_locked("unmapped");
	limit(RLIMIT_MEMLOCK, 4 * MB);
	SAY_ADDRESS(mmap(NULL, 3 * MB, RW, ANON, -1, 0));
	SAY_ADDRESS(mmap(NULL, 3 * MB, RW, ANON | MAP_POPULATE, -1, 0));
	SAY_ADDRESS(mmap(NULL, 64 * KB, RW, ANON, -1, 0));
	SAY(munlockall());
	say_locked("unlocked");
	at = map(1 * MB, RW, ANON);
	say_resident("after", at, 1 * MB);
}

static void on_fault(void)
{
	SAY(mlockall(MCL_FUTURE | MCL_ONFAULT));
	char *at = SAY_ADDRESS(mmap(NULL, 1 * MB, RW, ANON, -1, 0));
	say_resident("new", at, 1 * MB);
	say_locked("new");
	char *populated = SAY_ADDRESS(mmap(NULL, 1 * MB, RW, ANON | MAP_POPULATE, -1, 0));
	say_resident("populated", populated, 1 * MB);
	SAY(mlock(at, 512 * KB));
	say_resident("half locked", at, 1 * MB);
	SAY(mlockall(MCL_CURRENT | MCL_ONFAULT));
	say_resident("all on fault", at, 1 * MB);
	SAY(mlockall(MCL_CURRENT));
	say_resident("all", at, 1 * MB);
	SAY(munlockall());
	say_locked("unlocked");
}

static void too_much(void)
{
	char *at = map(64 * MB, RW, ANON);
	limit(RLIMIT_MEMLOCK, 8 * MB);
	SAY(mlockall(MCL_CURRENT));
	SAY(mlockall(MCL_CURRENT | MCL_FUTURE));
	say_resident("large", at, 1 * MB);
	SAY(munlockall());
	say_locked("nothing");
}

int main(void)
{
	in_child("flags", flags);
	in_child("current", current);
	in_child("future", future);
	in_child("on fault", on_fault);
	in_child("too much", too_much);
	return 0;
}
