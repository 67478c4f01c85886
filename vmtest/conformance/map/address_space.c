/* RLIMIT_AS and RLIMIT_DATA: sizes that fit and sizes that do not. Freed memory must be available again at once. */
#include "say.h"

static size_t size_now;
static int flags_now;

static void fits(void)
{
	long size = status_of("VmSize");
	limit(RLIMIT_AS, size * KB + size_now + 64 * KB);
	SAY_ADDRESS(mmap(NULL, size_now + 1 * MB, RW, flags_now, -1, 0));
	for (int round = 0; round < 4; round++) {
		char *at = SAY_ADDRESS(mmap(NULL, size_now, RW, flags_now, -1, 0));
		if (at == FAILED)
			continue;
		SAY_ADDRESS(mmap(NULL, size_now, RW, flags_now, -1, 0));
		SAY(not_zero(at, size_now));
		fill(at, size_now, 1);
		SAY(munmap(at, size_now));
		SAY(status_of("VmSize") == size);
	}
}

static void data(void)
{
	limit(RLIMIT_DATA, (status_of("VmData") + 256) * KB);
	SAY_ADDRESS(mmap(NULL, size_now + 1 * MB, RW, flags_now, -1, 0));
}

int main(void)
{
	static const int flags[] = {ANON, ANON | MAP_POPULATE, SHARED | MAP_POPULATE};
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (size_t j = 0; j < COUNT(flags); j++) {
			size_now = sizes[i];
			flags_now = flags[j];
			printf("-- %zu KiB, flags %x\n", size_now / KB, flags_now);
			in_child("address space", fits);
			in_child("data", data);
		}
	return 0;
}
