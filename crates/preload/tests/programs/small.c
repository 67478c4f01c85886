/* Times small requests with the preload library and with the C library behind it, alternating in one
 * process, so that both run with the same memory and the same system load. */
#include "common.h"
#include <dlfcn.h>
#include <time.h>

#define ROUNDS 300

struct calls {
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	int (*mlock)(const void *, size_t);
	int (*shmget)(key_t, size_t, int);
	void *(*shmat)(int, const void *, int);
	int (*shmdt)(const void *);
	int (*shmctl)(int, int, struct shmid_ds *);
};

static struct calls front, behind;
static char *memory;
static int segment;

static void find(struct calls *calls, void *library)
{
	*(void **)&calls->mmap = dlsym(library, "mmap");
	*(void **)&calls->munmap = dlsym(library, "munmap");
	*(void **)&calls->mlock = dlsym(library, "mlock");
	*(void **)&calls->shmget = dlsym(library, "shmget");
	*(void **)&calls->shmat = dlsym(library, "shmat");
	*(void **)&calls->shmdt = dlsym(library, "shmdt");
	*(void **)&calls->shmctl = dlsym(library, "shmctl");
}

static void map_and_unmap(const struct calls *calls, size_t length, int flags)
{
	flags |= MAP_PRIVATE | MAP_ANONYMOUS;
	calls->munmap(calls->mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0), length);
}

static void bare(const struct calls *calls, size_t length)
{
	map_and_unmap(calls, length, 0);
}

static void populated(const struct calls *calls, size_t length)
{
	map_and_unmap(calls, length, MAP_POPULATE);
}

static void locked(const struct calls *calls, size_t length)
{
	calls->mlock(memory, length);
	munlock(memory, length);
}

static void attached(const struct calls *calls, size_t length)
{
	(void)length;
	calls->shmdt(calls->shmat(segment, NULL, 0));
}

static void made(const struct calls *calls, size_t length)
{
	calls->shmctl(calls->shmget(IPC_PRIVATE, length, IPC_CREAT | 0600), IPC_RMID, NULL);
}

static const struct {
	const char *name;
	void (*run)(const struct calls *, size_t);
	/* Approximate nanoseconds for a call, and for each MiB of it. */
	unsigned fixed, each;
} cases[] = {
	{ "mmap, munmap", bare, 5000, 0 },
	{ "mmap(MAP_POPULATE), munmap", populated, 10000, 400000 },
	{ "mlock, munlock", locked, 5000, 120000 },
	{ "shmat, shmdt", attached, 6000, 0 },
	{ "shmget, IPC_RMID", made, 6000, 0 },
};

/* Returns this thread's processor time for one call in nanoseconds, averaged over `count` calls. */
static double measure(void (*run)(const struct calls *, size_t), const struct calls *calls,
		      size_t length, unsigned count)
{
	struct timespec begin, end;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (unsigned i = 0; i < count; i++)
		run(calls, length);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / count;
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

int main(void)
{
	static double with[ROUNDS], without[ROUNDS], ratios[ROUNDS];
	find(&front, RTLD_DEFAULT);
	find(&behind, dlopen("libc.so.6", RTLD_LAZY));
	printf("%s\n", front.mmap == behind.mmap ? "without a library in front" : "with a library in front");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t length = 64 << 10; length <= 2 << 20; length *= length == 256 << 10 ? 4 : 2) {
			unsigned count = 1 + 1000000 / (cases[i].fixed + (unsigned)(cases[i].each * length >> 20));
			memory = anonymous(length);
			memset(memory, 1, length);
			segment = front.shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
			for (int round = 0; round < ROUNDS; round++)
				for (int turn = 0; turn < 2; turn++)
					if ((turn ^ round) & 1)
						with[round] = measure(cases[i].run, &front, length, count);
					else
						without[round] = measure(cases[i].run, &behind, length, count);
			for (int round = 0; round < ROUNDS; round++)
				ratios[round] = with[round] / without[round];
			qsort(with, ROUNDS, sizeof *with, compare);
			qsort(without, ROUNDS, sizeof *without, compare);
			qsort(ratios, ROUNDS, sizeof *ratios, compare);
			printf("%-28s %5zu KiB: %8.0f ns without, %8.0f with, median of ratios %+.1f %%\n",
			       cases[i].name, length >> 10, without[ROUNDS / 2], with[ROUNDS / 2],
			       100 * (ratios[ROUNDS / 2] - 1));
			shmctl(segment, IPC_RMID, NULL);
			munmap(memory, length);
		}
	return 0;
}
