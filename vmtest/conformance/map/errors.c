/* Errors of mmap and munmap, with and without flags that populate memory. */
#include "say.h"

static const int with[] = {0, MAP_POPULATE, MAP_LOCKED, MAP_POPULATE | MAP_LOCKED, MAP_POPULATE | MAP_NONBLOCK};

static void flags(size_t size, int more)
{
	printf("-- %zu KiB, flags %x\n", size / KB, more);
	SAY_ADDRESS(mmap(NULL, 0, RW, ANON | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, (size_t)-1, RW, ANON | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, 1UL << 62, RW, ANON | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_PRIVATE | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_PRIVATE | more, 999, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_ANONYMOUS | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_ANONYMOUS | MAP_SHARED_VALIDATE | MAP_SYNC | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, size, 0x100, ANON | more, -1, 0));
	SAY_ADDRESS(mmap((void *)1, size, RW, ANON | MAP_FIXED | more, -1, 0));
	SAY_ADDRESS(mmap((void *)(~0UL << 12), size, RW, ANON | MAP_FIXED | more, -1, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_FIXED | more, -1, 0));
	int null = open("/dev/null", O_RDWR), directory = open("/", O_RDONLY), zero = open("/dev/zero", O_RDWR);
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_SHARED | more, null, 0));
	SAY_ADDRESS(mmap(NULL, size, PROT_READ, MAP_SHARED | more, directory, 0));
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_PRIVATE | more, zero, 1));
	char *at = SAY_ADDRESS(mmap(NULL, size, RW, MAP_PRIVATE | more, zero, 0));
	if (at != FAILED) {
		SAY(not_zero(at, size));
		SAY(munmap(at, size));
	}
	int reading = open("/proc/self/exe", O_RDONLY);
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_SHARED | more, reading, 0));
	int writing = open("writing", O_WRONLY | O_CREAT, 0600);
	SAY_ADDRESS(mmap(NULL, size, RW, MAP_PRIVATE | more, writing, 0));
	SAY_ADDRESS(mmap(NULL, size, PROT_WRITE, MAP_SHARED | more, writing, 0));
	close(null), close(directory), close(zero), close(reading), close(writing);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable); i++)
		for (size_t j = 0; j < COUNT(with); j++)
			flags(lockable[i], with[j]);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		char *at = map(sizes[i], RW, ANON);
		SAY(munmap(at, 0));
		SAY(munmap(at + 1, sizes[i]));
		SAY(munmap(at, (size_t)-1));
		SAY(munmap((void *)(~0UL << 12), sizes[i]));
		say_mappings("untouched", at, sizes[i]);
		SAY(munmap(at, sizes[i] - 1));
		say_mappings("gone", at, sizes[i]);
		SAY(munmap(at, sizes[i]));
	}
	return 0;
}
