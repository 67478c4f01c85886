/* Large aligned blocks of the allocator, in a process that locks its memory. */
#include "common.h"
#include <malloc.h>

/* Prints how many pages of a block are resident, and whether it keeps what is written to it. */
static void show(const char *name, char *block)
{
	uintptr_t start = ((uintptr_t)block + (PAGE - 1)) & ~(uintptr_t)(PAGE - 1);
	printf("%s: %zu of %zu pages resident\n", name, resident((void *)start, LARGE - PAGE), (LARGE - PAGE) / PAGE);
	fill(block, LARGE, 5);
	printf("%s: %s\n", name, filled(block, LARGE, 5) ? "as written" : "not as written");
}

static void all(const char *when)
{
	void *block = NULL;
	long before = status_of("VmLck");
	printf("%s\n", when);
	SHOW(posix_memalign(&block, (size_t)2 << 20, LARGE));
	show("posix_memalign", block);
	char *aligned = aligned_alloc(PAGE, LARGE);
	show("aligned_alloc", aligned);
	char *older = memalign(64, LARGE);
	show("memalign", older);
	printf("VmLck: %ld kB more\n", status_of("VmLck") - before);
	block = realloc(block, 2 * LARGE);
	printf("larger: %s\n", filled(block, LARGE, 5) ? "as written" : "not as written");
	free(block);
	free(aligned);
	free(older);
	printf("VmLck after all: %ld kB more\n", status_of("VmLck") - before);
	/* Errors are those of the allocator. */
	SHOW(posix_memalign(&block, 3, LARGE));
	SHOW(posix_memalign(&block, PAGE, SIZE_MAX / 2) == ENOMEM);
	SHOW(memalign(PAGE, SIZE_MAX / 2) == NULL);
	/* New mappings have the same properties as without the library. */
	show_mapping("mapped", anonymous(LARGE));
}

static volatile int stop;

/* Maps and unmaps memory by internal calls of the C library, which no library can intercept. */
static void *map_all_the_time(void *argument)
{
	while (!stop)
		free(malloc(LARGE));
	return argument;
}

static void beside_others(void)
{
	pthread_t thread;
	void *block;
	int lacking = 0;
	pthread_create(&thread, NULL, map_all_the_time, NULL);
	for (int i = 0; i < 200; i++) {
		if (posix_memalign(&block, PAGE, LARGE))
			return;
		lacking += resident(block, LARGE) != LARGE / PAGE;
		free(block);
	}
	stop = 1;
	pthread_join(thread, NULL);
	printf("%d not wholly there\n", lacking);
	void *after = malloc(LARGE);
	uintptr_t start = ((uintptr_t)after + (PAGE - 1)) & ~(uintptr_t)(PAGE - 1);
	printf("after them %zu of %zu\n", resident((void *)start, LARGE - PAGE), (LARGE - PAGE) / PAGE);
	free(after);
}

int main(int count, char **arguments)
{
	/* Every large block then has its own mapping, whatever was freed before. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	if (count > 1 && !strcmp(arguments[1], "beside")) {
		SHOW(mlockall(MCL_CURRENT | MCL_FUTURE));
		beside_others();
		return 0;
	}
	all("plain");
	SHOW(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
	all("locked on demand");
	SHOW(mlockall(MCL_CURRENT | MCL_FUTURE));
	all("locked");
	SHOW(munlockall());
	all("plain again");
	return 0;
}
