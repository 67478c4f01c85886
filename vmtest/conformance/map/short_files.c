/* Files that are shorter than their mapping: pages past the end cannot be populated, and accessing them raises
 * SIGBUS. */
#include "say.h"

static void mapped(size_t length, size_t size, int flags)
{
	int file = memfd_create("file", 0);
	if (file < 0 || ftruncate(file, length))
		stop("memfd");
	printf("-- %zu bytes as %zu KiB, flags %x\n", length, size / KB, flags);
	char *at = SAY_ADDRESS(mmap(NULL, size, RW, flags, file, 0));
	if (at == FAILED) {
		close(file);
		return;
	}
	say_locked("mapped");
	say_mappings("mapped", at, size);
	if (length)
		SAY(touch(at + length - 1, 1));
	SAY(touch(at + size - 1, 0));
	SAY(touch(at + size - 1, 1));
	SAY(madvise(at, size, MADV_POPULATE_READ));
	SAY(madvise(at, size, MADV_POPULATE_WRITE));
	SAY(mlock(at, size));
	say_locked("locked");
	SAY(ftruncate(file, size));
	SAY(touch(at + size - 1, 1));
	SAY(mlock(at, size));
	say_resident("long enough", at, size);
	SAY(ftruncate(file, 0));
	SAY(touch(at, 0));
	SAY(munmap(at, size));
	say_locked("unmapped");
	close(file);
}

int main(void)
{
	static const int flags[] = {MAP_SHARED, MAP_PRIVATE, MAP_SHARED | MAP_POPULATE, MAP_PRIVATE | MAP_POPULATE,
								MAP_SHARED | MAP_LOCKED};
	for (size_t i = 1; i < COUNT(lockable); i++)
		for (size_t j = 0; j < COUNT(flags); j++) {
			mapped(0, lockable[i], flags[j]);
			mapped(lockable[i] / 2 + 100, lockable[i], flags[j]);
			mapped(lockable[i] - PAGE, lockable[i], flags[j]);
		}
	return 0;
}
