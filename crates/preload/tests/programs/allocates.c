/* A program that allocates in several threads. */
#include "common.h"

static void *allocate(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;
	uintptr_t bad = 0;
	for (unsigned i = 0; i < 60; i++) {
		size_t length = (i % 7 + 1) * 100000;
		char *memory = malloc(length);
		if (!memory)
			return (void *)1000;
		fill(memory, length - 4, seed + i);
		memory = realloc(memory, 2 * length);
		bad += !filled(memory, length - 4, seed + i);
		free(memory);
	}
	return (void *)bad;
}

int main(void)
{
	pthread_t threads[8];
	uintptr_t bad = 0;
	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, allocate, (void *)i);
	for (int i = 0; i < 8; i++) {
		void *result;
		pthread_join(threads[i], &result);
		bad += (uintptr_t)result;
	}
	FILE *file = fopen("left", "w");
	fprintf(file, "all of it");
	printf("%lu bad, %d tasks\n", (unsigned long)bad, tasks());
	return 0;
}
