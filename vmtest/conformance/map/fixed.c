/* MAP_FIXED and MAP_FIXED_NOREPLACE: the previous mapping, adjacent mappings, and the new one. */
#include "say.h"

static void size(size_t size, int more)
{
	printf("-- %zu KiB, flags %x\n", size / KB, more);
	char *room = map(3 * size, RW, ANON);
	fill(room, 3 * size, 1);
	SAY_ADDRESS(mmap(room + size, size, RW, ANON | MAP_FIXED_NOREPLACE | more, -1, 0));
	SAY(wrong(room, 3 * size, 1));
	char *at = mmap(room + size, size, RW, ANON | MAP_FIXED | more, -1, 0);
	SAY(at == room + size);
	SAY(not_zero(at, size));
	SAY(wrong(room, size, 1));
	SAY(*(uint64_t *)(room + 2 * size) == mark_of(2 * size, 1));
	fill(at, size, 2);
	SAY(mmap(at, size, PROT_READ, SHARED | MAP_FIXED | more, -1, 0) == at);
	SAY(not_zero(at, size));
	SAY(touch(at, 1));
	say_mappings("shared", room, 3 * size);
	SAY(munmap(at, size));
	SAY(mmap(at, size, RW, ANON | MAP_FIXED_NOREPLACE | more, -1, 0) == at);
	SAY(not_zero(at, size));
	say_mappings("again", room, 3 * size);
	/* Half of the new mapping covers the old one. */
	char *half = room + size / 2 / PAGE * PAGE;
	SAY_ADDRESS(mmap(half, size, RW, ANON | MAP_FIXED_NOREPLACE | more, -1, 0));
	SAY(mmap(half, size, RW, ANON | MAP_FIXED | more, -1, 0) == half);
	SAY(not_zero(half, size));
	SAY(wrong(room, half - room, 1));
	SAY(munmap(room, 3 * size));
	say_mappings("gone", room, 3 * size);
	/* An address without MAP_FIXED is only a hint. */
	at = mmap(room + size, size, RW, ANON | more, -1, 0);
	SAY(at == room + size);
	char *other = mmap(room + size, size, RW, ANON | more, -1, 0);
	SAY(other != FAILED && other != at);
	SAY(munmap(other, size));
	SAY(munmap(at, size));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size(sizes[i], 0);
		size(sizes[i], MAP_POPULATE);
		size(sizes[i], MAP_NORESERVE | MAP_POPULATE);
	}
	return 0;
}
