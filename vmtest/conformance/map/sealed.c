/* memfds with seals; mremap and mprotect of populated memory. */
#include "say.h"

static void sealed(size_t size)
{
	int file = memfd_create("file", MFD_ALLOW_SEALING);
	if (file < 0 || ftruncate(file, size))
		stop("memfd");
	char *at = SAY_ADDRESS(mmap(NULL, size, RW, MAP_SHARED | MAP_POPULATE, file, 0));
	SAY(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
	SAY(munmap(at, size));
	SAY(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_SHARED | MAP_POPULATE, file, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_SHARED | MAP_LOCKED, file, 0));
	at = SAY_ADDRESS(mmap(NULL, size, RW, MAP_PRIVATE | MAP_POPULATE, file, 0));
	fill(at, size, 1);
	SAY(munmap(at, size));
	at = SAY_ADDRESS(mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0));
	if (at != FAILED) {
		SAY(not_zero(at, size));
		SAY(mprotect(at, size, RW));
		SAY(munmap(at, size));
	}
	close(file);
	file = memfd_create("file", MFD_ALLOW_SEALING);
	if (file < 0 || ftruncate(file, size))
		stop("memfd");
	SAY(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_SHARED | MAP_POPULATE, file, 0));
	at = SAY_ADDRESS(mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0));
	SAY(mlock(at, size > 4 * MB ? 4 * MB : size));
	SAY(mprotect(at, size, RW));
	SAY(munmap(at, size));
	say_locked("unmapped");
	close(file);
}

static void moved(size_t size)
{
	char *at = map(size, RW, ANON | MAP_POPULATE);
	fill(at, size, 2);
	at = SAY_ADDRESS(mremap(at, size, 2 * size, MREMAP_MAYMOVE));
	SAY(wrong(at, size, 2));
	SAY(not_zero(at + size, size));
	at = SAY_ADDRESS(mremap(at, 2 * size, size, 0));
	char *to = map(size, RW, ANON);
	SAY(mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	say_mappings("where it was", at, size);
	SAY(wrong(to, size, 2));
	SAY(mprotect(to, size, PROT_READ));
	SAY(munmap(to, size));
	SAY_ADDRESS(mremap(to, size, 2 * size, MREMAP_MAYMOVE));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		printf("-- %zu KiB\n", sizes[i] / KB);
		sealed(sizes[i]);
		moved(sizes[i]);
	}
	return 0;
}
