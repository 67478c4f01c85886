/* fork while other threads map, lock and unmap memory; the state and abilities of the child. */
#include <pthread.h>

#include "say.h"

static volatile int over;
static char *kept;
static size_t size_now;

static void *busy(void *unused)
{
	(void)unused;
	while (!over) {
		char *at = mmap(NULL, 3 * MB, RW, ANON | MAP_POPULATE, -1, 0);
		if (at == FAILED)
			continue;
		mlock(at, 1 * MB);
		munmap(at, 3 * MB);
	}
	return NULL;
}

static void child(void)
{
	SAY(wrong(kept, size_now, 1));
	char *at = SAY_ADDRESS(mmap(NULL, size_now, RW, ANON | MAP_POPULATE, -1, 0));
	SAY(not_zero(at, size_now));
	fill(at, size_now, 2);
	SAY(mlock(at, size_now > 2 * MB ? 2 * MB : size_now));
	SAY(munmap(at, size_now));
	fill(kept, size_now, 3);
	SAY(munmap(kept, size_now));
	int id = shmget(IPC_PRIVATE, size_now, 0600);
	at = SAY_ADDRESS(shmat(id, NULL, 0));
	fill(at, size_now, 4);
	SAY(shmctl(id, IPC_RMID, NULL));
	SAY(wrong(at, size_now, 4));
	SAY(shmdt(at));
	SAY(status_of("Threads"));
	exit(1);
}

int main(void)
{
	pthread_t threads[4];
	limit(RLIMIT_MEMLOCK, 8 * MB);
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_create(&threads[i], NULL, busy, NULL);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			size_now = sizes[i];
			printf("-- %zu KiB\n", size_now / KB);
			kept = map(size_now, RW, ANON | MAP_POPULATE);
			fill(kept, size_now, 1);
			in_child("child", child);
			SAY(wrong(kept, size_now, 1));
			SAY(munmap(kept, size_now));
		}
	over = 1;
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	SAY(status_of("Threads"));
	say_locked("at the end");
	return 0;
}
