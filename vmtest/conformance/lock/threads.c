/* Threads lock and unlock their own ranges and parts of a shared one, while other threads map and unmap memory. */
#include <pthread.h>

#include "say.h"

#define THREADS 6
#define ROUNDS 20

static char *common;
static size_t bad[THREADS];

static void *work(void *argument)
{
	size_t mine = (size_t)argument;
	char *own = common + mine * MB;
	for (size_t round = 0; round < ROUNDS; round++) {
		unsigned char pages[MB / PAGE];
		bad[mine] += mlock(own, MB) != 0;
		bad[mine] += mincore(own, MB, pages) != 0;
		for (size_t i = 0; i < COUNT(pages); i++)
			bad[mine] += !(pages[i] & 1);
		fill(own, MB, round);
		bad[mine] += munlock(own + MB / 4, MB / 2) != 0;
		char *more = mmap(NULL, 2 * MB, RW, ANON | (round & 1 ? MAP_POPULATE : 0), -1, 0);
		if (more == FAILED) {
			bad[mine]++;
			continue;
		}
		bad[mine] += not_zero(more, 2 * MB);
		fill(more, 2 * MB, mine);
		bad[mine] += wrong(more, 2 * MB, mine) + wrong(own, MB, round);
		bad[mine] += munmap(more, 2 * MB) != 0;
		bad[mine] += munlock(own, MB) != 0;
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	common = map(THREADS * MB, RW, ANON);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			stop("pthread_create");
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		SAY(bad[i]);
	}
	say_locked("at the end");
	say_mappings("at the end", common, THREADS * MB);
	for (size_t i = 0; i < THREADS; i++)
		SAY(wrong(common + i * MB, MB, ROUNDS - 1));
	return 0;
}
