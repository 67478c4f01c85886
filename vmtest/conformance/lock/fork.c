/* Locks and fork: a child inherits none, its writes are private, and the parent's pages stay locked. */
#include "say.h"

static char *at;
static size_t size_now;

static void child(void)
{
	say_locked("in the child");
	say_mappings("in the child", at, size_now);
	SAY(wrong(at, size_now, 1));
	fill(at, size_now, 2);
	SAY(mlock(at, size_now));
	say_locked("locked by the child");
	SAY(wrong(at, size_now, 2));
	SAY(munmap(at, size_now));
	say_locked("unmapped by the child");
}

static void all_child(void)
{
	say_locked("in the child");
	char *more = map(1 * MB, RW, ANON);
	say_resident("new in the child", more, 1 * MB);
}

static void all(void)
{
	SAY(mlockall(MCL_FUTURE));
	in_child("child of mlockall", all_child);
	char *more = map(1 * MB, RW, ANON);
	say_resident("new in the parent", more, 1 * MB);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable); i++) {
		size_now = lockable[i];
		printf("-- %zu KiB\n", size_now / KB);
		at = map(size_now, RW, ANON);
		fill(at, size_now, 1);
		SAY(mlock(at, size_now));
		in_child("child", child);
		SAY(wrong(at, size_now, 1));
		say_locked("in the parent");
		say_mappings("in the parent", at, size_now);
		fill(at, size_now, 3);
		SAY(mlock(at, size_now));
		SAY(wrong(at, size_now, 3));
		SAY(munmap(at, size_now));
	}
	in_child("mlockall", all);
	return 0;
}
