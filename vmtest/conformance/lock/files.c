/* mlock of mapped files: shared, private, read-only, and past the end of the file. */
#include "say.h"

static void range(const char *what, int file, size_t size, int protection, int flags)
{
	printf("-- %s, %zu KiB\n", what, size / KB);
	char *at = SAY_ADDRESS(mmap(NULL, size, protection, flags, file, 0));
	if (at == FAILED)
		return;
	SAY(mlock(at, size));
	say_locked("locked");
	say_mappings("locked", at, size);
	if (protection & PROT_READ)
		SAY(wrong(at, size / 2, 5));
	SAY(mlock2(at, size, MLOCK_ONFAULT));
	SAY(munlock(at, size));
	say_locked("unlocked");
	if (protection == RW) {
		fill(at, size / 2, flags & MAP_SHARED ? 5 : 6);
		SAY(mlock(at, size));
		SAY(wrong(at, size / 2, flags & MAP_SHARED ? 5 : 6));
	}
	SAY(munmap(at, size));
	say_locked("unmapped");
}

int main(void)
{
	for (size_t i = 1; i < COUNT(lockable); i++) {
		size_t size = lockable[i];
		int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), reading = open("file", O_RDONLY);
		if (file < 0 || ftruncate(file, size))
			stop("file");
		char *at = mmap(NULL, size, RW, MAP_SHARED, file, 0);
		fill(at, size, 5);
		munmap(at, size);
		range("shared", file, size, RW, MAP_SHARED);
		range("private", file, size, RW, MAP_PRIVATE);
		range("private, to read", reading, size, PROT_READ, MAP_PRIVATE);
		range("shared, to read", reading, size, PROT_READ, MAP_SHARED);
		range("shared, no access", file, size, PROT_NONE, MAP_SHARED);
		range("shared to write of a file to read", reading, size, RW, MAP_SHARED);
		if (ftruncate(file, size / 2 + PAGE))
			stop("ftruncate");
		range("shared, beyond the end", file, size, RW, MAP_SHARED);
		range("private, beyond the end", file, size, RW, MAP_PRIVATE);
		range("shared, locked beyond the end", file, size, RW, MAP_SHARED | MAP_LOCKED);
		range("shared, populated beyond the end", file, size, RW, MAP_SHARED | MAP_POPULATE);
		close(file);
		close(reading);
		unlink("file");
	}
	return 0;
}
