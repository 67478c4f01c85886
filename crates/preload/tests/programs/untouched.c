/* The program's malloc before the program has called it. */
#include "common.h"

#include <malloc.h>

int main(void)
{
	struct mallinfo2 before = mallinfo2();
	char *memory = anonymous(8 * LARGE);
	fill(memory, 8 * LARGE, 5);
	munmap(memory, 8 * LARGE);
	struct mallinfo2 after = mallinfo2();
	printf("%zu %zu, %zu %zu\n", before.arena, before.hblkhd, after.arena, after.hblkhd);
	return 0;
}
