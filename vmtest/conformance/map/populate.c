/* MAP_POPULATE: resident pages afterwards, for every kind of memory and protection. */
#include "say.h"

static const int protections[] = {PROT_NONE, PROT_READ, PROT_WRITE, RW, PROT_EXEC, PROT_READ | PROT_EXEC};

static void anonymous(size_t size, int protection, int flags)
{
	printf("-- %zu KiB, protection %d, flags %x\n", size / KB, protection, flags);
	char *at = SAY_ADDRESS(mmap(NULL, size, protection, flags, -1, 0));
	if (at == FAILED)
		return;
	say_resident("mapped", at, size);
	say_mappings("mapped", at, size);
	SAY(mprotect(at, size, RW));
	SAY(not_zero(at, size));
	fill(at, size, 1);
	SAY(wrong(at, size, 1));
	SAY(munmap(at, size));
}

static void of_memfd(size_t size, int protection, int flags)
{
	int file = memfd_create("file", 0);
	if (file < 0 || ftruncate(file, size))
		stop("memfd");
	printf("-- a file of %zu KiB, protection %d, flags %x\n", size / KB, protection, flags);
	char *at = SAY_ADDRESS(mmap(NULL, size, protection, flags, file, 0));
	if (at != FAILED) {
		say_mappings("mapped", at, size);
		SAY(mprotect(at, size, RW));
		SAY(not_zero(at, size));
		fill(at, size, 2);
		char page[PAGE];
		SAY(pread(file, page, PAGE, size - PAGE));
		SAY(not_zero(page, PAGE) > 0);
		SAY(munmap(at, size));
	}
	at = mmap(NULL, size, RW, MAP_SHARED | MAP_POPULATE, file, 0);
	SAY(wrong(at, size, 2) == 0);
	SAY(munmap(at, size));
	close(file);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (size_t j = 0; j < COUNT(protections); j++) {
			if (sizes[i] > 8 * MB && protections[j] != RW && protections[j] != PROT_READ)
				continue;
			anonymous(sizes[i], protections[j], ANON | MAP_POPULATE);
			anonymous(sizes[i], protections[j], SHARED | MAP_POPULATE);
			anonymous(sizes[i], protections[j], ANON | MAP_POPULATE | MAP_NORESERVE);
			of_memfd(sizes[i], protections[j], MAP_SHARED | MAP_POPULATE);
			of_memfd(sizes[i], protections[j], MAP_PRIVATE | MAP_POPULATE);
		}
	for (size_t i = 0; i < COUNT(sizes); i++) {
		anonymous(sizes[i], RW, ANON | MAP_POPULATE | MAP_NONBLOCK);
		anonymous(sizes[i], RW, ANON | MAP_POPULATE | MAP_STACK);
	}
	return 0;
}
