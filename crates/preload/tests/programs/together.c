/* Calls of many threads and processes at the same time. */
#include "common.h"

#define THREADS 64

static char *common_memory;
static int segment;
static int failures;

static void check(int good)
{
	if (!good)
		__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
}

/* Each thread uses its own memory, and some memory common to all. */
static void *use_memory(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;
	for (int round = 0; round < 4; round++) {
		char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | (round & 1 ? MAP_POPULATE : 0), -1, 0);
		check(memory != MAP_FAILED);
		check(mlock(memory, LARGE) == 0);
		fill(memory, LARGE, seed);
		check(mlock(common_memory + (seed % 4) * LARGE, LARGE) == 0);
		check(madvise(common_memory, 4 * LARGE, MADV_POPULATE_READ) == 0);
		check(filled(common_memory, 4 * LARGE, 7));
		char *shared = shmat(segment, NULL, 0);
		check(shared != (void *)-1);
		check(filled(shared, LARGE, 8));
		check(shmdt(shared) == 0);
		check(filled(memory, LARGE, seed));
		check(munlock(common_memory + (seed % 4) * LARGE, LARGE) == 0);
		check(munmap(memory, LARGE) == 0);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t ids[THREADS];
	common_memory = anonymous(4 * LARGE);
	fill(common_memory, 4 * LARGE, 7);
	segment = new_segment(LARGE, 0);
	char *shared = shmat(segment, NULL, 0);
	fill(shared, LARGE, 8);
	for (uintptr_t i = 0; i < THREADS; i++)
		check(pthread_create(&ids[i], NULL, use_memory, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	show_segment("segment", segment);
	SHOW(shmctl(segment, IPC_RMID, NULL));
	SHOW(shmdt(shared));
	printf("%d failures, VmLck %ld kB\n", failures, status_of("VmLck"));
}

/* Set to end the thread that repeatedly creates and frees memory. */
static volatile int ends;

static void *churn(void *unused)
{
	(void)unused;
	while (!ends) {
		char *memory = mmap(NULL, 8 * LARGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		check(memory != MAP_FAILED);
		memory[LARGE] = 1;
		check(munmap(memory, 8 * LARGE) == 0);
	}
	return NULL;
}

/* Children that are forked in the middle of another thread's call have all the helpers they need, and
 * inherit none. */
static void forks(void)
{
	pthread_t churner;
	char *memory = anonymous(4 * LARGE);
	fill(memory, 4 * LARGE, 3);
	pthread_create(&churner, NULL, churn, NULL);
	for (int i = 0; i < 40; i++) {
		pid_t child = fork();
		if (child == 0) {
			int good = tasks() == 1 && filled(memory, 4 * LARGE, 3);
			good = good && mlock(memory, LARGE) == 0 && status_of("VmLck") == LARGE >> 10;
			char *mine = map(LARGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
			good = good && resident(mine, LARGE) == LARGE / PAGE;
			good = good && munmap(mine, LARGE) == 0 && munmap(memory, 4 * LARGE) == 0;
			_exit(good ? 0 : 1);
		}
		int status = -1;
		waitpid(child, &status, 0);
		check(status == 0);
	}
	ends = 1;
	pthread_join(churner, NULL);
	printf("%d failures, %d\n", failures, filled(memory, 4 * LARGE, 3));
}

/* A child that shares its parent's memory frees none of it when it ends. */
static void vforks(void)
{
	char *memory = anonymous(4 * LARGE), *shared = map(4 * LARGE, MAP_SHARED | MAP_ANONYMOUS);
	char *volatile theirs = NULL;
	fill(memory, 4 * LARGE, 3);
	fill(shared, 4 * LARGE, 4);
	for (int i = 0; i < 3; i++) {
		pid_t child = vfork();
		if (child == 0) {
			theirs = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
			_exit(5 + i);
		}
		int status;
		waitpid(child, &status, 0);
		printf("%x %d %d, %zu and %zu pages\n", status, filled(memory, 4 * LARGE, 3),
		       filled(shared, 4 * LARGE, 4), resident(memory, 4 * LARGE),
		       resident(theirs, LARGE));
		SHOW(munmap(theirs, LARGE));
	}
}

static int in_same_memory(void *memory)
{
	int good = mlock(memory, LARGE) == 0 && munmap((char *)memory + LARGE, LARGE) == 0;
	_exit(good ? 4 : 6);
}

/* Another process makes calls in the same memory at the same time. */
static void clones(void)
{
	char *memory = anonymous(4 * LARGE);
	fill(memory, 4 * LARGE, 3);
	char *stack = anonymous(LARGE);
	pid_t child = clone(in_same_memory, stack + LARGE, CLONE_VM | SIGCHLD, memory);
	for (int i = 0; i < 20; i++) {
		char *mine = map(LARGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
		check(munmap(mine, LARGE) == 0);
	}
	int status;
	waitpid(child, &status, 0);
	printf("%x %d %d failures\n", status, filled(memory, LARGE, 3), failures);
	show_mapping("locked by the other", memory);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "threads", threads }, { "forks", forks }, { "vforks", vforks }, { "clones", clones },
};

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			printf("%d tasks, %d descriptors\n", tasks(), descriptors());
			return 0;
		}
	return 98;
}
