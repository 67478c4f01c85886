/* The state of malloc before the program has called it. */
#include "common.h"

#include <malloc.h>

int main(void)
{
	struct mallinfo2 before = mallinfo2();
	/* Less than 8 MiB: from 8 MiB on, the caller first frees 8 MiB alone, and starts no helpers if that
	 * is very fast. */
	char *memory = anonymous(6 * LARGE);
	fill(memory, 6 * LARGE, 5);
	munmap(memory, 6 * LARGE);
	struct mallinfo2 after = mallinfo2();
	printf("%zu %zu, %zu %zu\n", before.arena, before.hblkhd, after.arena, after.hblkhd);
	return 0;
}
