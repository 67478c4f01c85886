/* Reserves addresses, maps a memfd over them and populates it, as QEMU does. */
#include "common.h"

#define SIZE (8 * LARGE)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static char *reserve(void *address, size_t length)
{
	char *memory = mmap(address, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		exit(99);
	return memory;
}

int main(int count, char **arguments)
{
	int collapse = count > 1 && !strcmp(arguments[1], "collapse");
	/* The library reserves at a multiple of 2 MiB; without it the program must. */
	char *memory = reserve(collapse ? place() : NULL, SIZE + PAGE);
	show_mapping("reserved", memory);
	int file = memfd_create("memory", 0);
	SHOW(ftruncate(file, SIZE));
	SHOW(mmap(memory, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == memory);
	SHOW(madvise(memory, SIZE, MADV_HUGEPAGE));
	SHOW(madvise(memory, SIZE, MADV_POPULATE_WRITE));
	printf("there %zu\n", resident(memory, SIZE));
	struct stat state;
	fstat(file, &state);
	printf("%ld blocks, first byte %d\n", (long)state.st_blocks, memory[12345]);
	fill(memory, SIZE, 3);
	printf("%s\n", filled(memory, SIZE, 3) ? "as written" : "not as written");
	if (collapse)
		madvise(memory, SIZE, MADV_COLLAPSE);
	if (count > 1) {
		FILE *smaps = fopen("/proc/self/smaps", "r");
		char line[256];
		long kib = 0;
		while (fgets(line, sizeof line, smaps))
			if (!strncmp(line, "ShmemPmdMapped:", 15))
				kib += atol(line + 15);
		printf("huge: %ld kB\n", kib);
	}
	/* Together with the guard page behind it, which cannot be populated. */
	SHOW(madvise(memory, SIZE + PAGE, MADV_POPULATE_WRITE));
	SHOW(munmap(memory, SIZE + PAGE));
	/* Read-only. */
	memory = place();
	SHOW(mmap(memory, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == memory);
	SHOW(madvise(memory, SIZE, MADV_POPULATE_WRITE));
	SHOW(madvise(memory, SIZE, MADV_POPULATE_READ));
	/* Larger than the memfd. */
	SHOW(mmap(memory, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == memory);
	SHOW(madvise(memory, 2 * SIZE, MADV_POPULATE_WRITE));
	SHOW_NUMBER(fstat(file, &state) || state.st_size != SIZE);
	/* Larger than the address space. */
	SHOW(mmap(NULL, (size_t)1 << 60, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED);
	return 0;
}
