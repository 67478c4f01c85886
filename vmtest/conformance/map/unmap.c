/* munmap of starts, middles, ends, holes and several mappings at once: removed and unchanged parts. */
#include "say.h"

static void part(const char *what, char *at, size_t size, size_t from, size_t length)
{
	printf("%s: ", what);
	SAY(munmap(at + from, length));
	say_mappings("after", at, size);
	size_t bad = 0;
	for (size_t offset = 0; offset < size; offset += PAGE) {
		unsigned char page;
		if (!mincore(at + offset, PAGE, &page))
			bad += *(uint64_t *)(at + offset) != mark_of(offset, 1);
	}
	SAY(bad);
}

static void size(size_t size, int flags)
{
	size_t tenth = size / 10 / PAGE * PAGE;
	printf("-- %zu KiB, flags %x\n", size / KB, flags);
	char *at = map(size, RW, flags);
	fill(at, size, 1);
	part("a start", at, size, 0, tenth);
	part("a middle", at, size, 3 * tenth, 2 * tenth);
	part("an end", at, size, size - tenth, tenth);
	part("a hole", at, size, 3 * tenth, 2 * tenth);
	part("a hole and more", at, size, 2 * tenth, 5 * tenth);
	part("one page", at, size, 8 * tenth, PAGE);
	part("all", at, size, 0, size);
	part("nothing", at, size, 0, size);
	/* Mappings of several kinds at once. */
	at = map(size, PROT_NONE, ANON);
	mmap(at, tenth, RW, ANON | MAP_FIXED, -1, 0);
	mmap(at + 2 * tenth, 2 * tenth, RW, SHARED | MAP_FIXED, -1, 0);
	mmap(at + 4 * tenth, 2 * tenth, PROT_READ, ANON | MAP_FIXED, -1, 0);
	munmap(at + 6 * tenth, tenth);
	mmap(at + 7 * tenth, tenth, RW, ANON | MAP_FIXED, -1, 0);
	SAY(mlock(at + 7 * tenth, PAGE));
	fill(at, tenth, 3);
	say_mappings("several kinds", at, size);
	SAY(munmap(at + tenth, size - tenth));
	say_mappings("but the first", at, size);
	say_locked("but the first");
	SAY(wrong(at, tenth, 3));
	SAY(munmap(at, tenth));
}

int main(void)
{
	static const size_t some[] = {10 * PAGE, 640 * KB, 3 * MB + 5 * PAGE, 48 * MB};
	for (size_t i = 0; i < COUNT(some); i++) {
		size(some[i], ANON);
		size(some[i], SHARED);
		size(some[i], ANON | MAP_POPULATE);
		size(some[i], SHARED | MAP_POPULATE);
	}
	return 0;
}
