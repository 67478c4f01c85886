/* MAP_HUGETLB and madvise for huge pages: errors, and contents. */
#include "say.h"

int main(void)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r");
	int pages = -1;
	if (file && fscanf(file, "%d", &pages) == 1)
		SAY(pages);
	for (size_t size = 2 * MB; size <= 64 * MB; size *= 32) {
		static const int more[] = {0, MAP_POPULATE, MAP_LOCKED};
		for (size_t i = 0; i < COUNT(more); i++) {
			char *at = SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_HUGETLB | more[i], -1, 0));
			if (at != FAILED) {
				SAY(not_zero(at, size));
				SAY(munmap(at, PAGE));
				SAY(munmap(at, size));
			}
		}
		static const int advice[] = {MADV_NORMAL, MADV_HUGEPAGE, MADV_NOHUGEPAGE};
		for (size_t i = 0; i < COUNT(advice); i++) {
			char *at = map(size, RW, ANON);
			madvise(at, size, advice[i]);
			fill(at, size, 1);
			SAY(munmap(at + 3 * PAGE, PAGE));
			SAY(madvise(at, size / 2, MADV_DONTNEED));
			SAY(*(uint64_t *)(at + size - PAGE) == mark_of(size - PAGE, 1));
			SAY(not_zero(at + 4 * PAGE, size / 2 - 4 * PAGE));
			SAY(munmap(at, size));
		}
	}
	SAY_ADDRESS(mmap(NULL, 2 * MB, RW, ANON | MAP_HUGETLB | (29 << MAP_HUGE_SHIFT), -1, 0));
	return 0;
}
