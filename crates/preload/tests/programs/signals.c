/* Signals, jumps and cancellation in the middle of calls. */
#include "common.h"

#define ROUNDS 200

static volatile sig_atomic_t handled;
static char *lockable;

static void count(int signal)
{
	(void)signal;
	handled++;
}

static void start_timer(int microseconds)
{
	struct itimerval interval = { { 0, microseconds }, { 0, microseconds } };
	setitimer(ITIMER_REAL, &interval, NULL);
}

static int use_memory(void)
{
	char *memory = mmap(NULL, 4 * LARGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		return 0;
	fill(memory, 4 * LARGE, 1);
	int good = mlock(memory, 4 * LARGE) == 0 && filled(memory, 4 * LARGE, 1);
	return munmap(memory, 4 * LARGE) == 0 && good;
}

/* Handlers run as between system calls. */
static void handlers(void)
{
	signal(SIGALRM, count);
	start_timer(200);
	int good = 0;
	for (int i = 0; i < ROUNDS; i++)
		good += use_memory();
	start_timer(0);
	printf("%d of %d, handled %d\n", good, ROUNDS, handled > 0);
}

/* Handlers that call what they interrupt. */
static void call(int signal)
{
	(void)signal;
	char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory != MAP_FAILED && munmap(memory, LARGE) == 0)
		handled++;
}

static void nested(void)
{
	signal(SIGALRM, call);
	start_timer(1000);
	int good = 0;
	for (int i = 0; i < ROUNDS / 4; i++)
		good += use_memory();
	start_timer(0);
	printf("%d of %d, handled %d\n", good, ROUNDS / 4, handled > 0);
}

static sigjmp_buf before;

static void jump(int signal)
{
	(void)signal;
	handled++;
	siglongjmp(before, 1);
}

/* A handler that never returns leaves no call half done. */
static void jumps(void)
{
	volatile int rounds = 0;
	signal(SIGALRM, jump);
	lockable = anonymous(4 * LARGE);
	sigsetjmp(before, 1);
	start_timer(3000);
	while (rounds < ROUNDS) {
		rounds++;
		mlock(lockable, 4 * LARGE);
		munlock(lockable, 4 * LARGE);
		madvise(lockable, 4 * LARGE, MADV_DONTNEED);
	}
	start_timer(0);
	signal(SIGALRM, SIG_IGN);
	munlock(lockable, 4 * LARGE);
	/* Neither half locked nor with the marks of a call in the middle. */
	SHOW(mlock(lockable, 4 * LARGE));
	show_mapping("locked", lockable);
	printf("jumped %d\n", handled > 0);
}

/* The end comes at once, and none of the program's processes is left. */
static void terminated(void)
{
	start_timer(300000);
	for (;;)
		use_memory();
}

static void *lock_for_ever(void *unused)
{
	(void)unused;
	int type;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	for (;;) {
		mlock(lockable, 4 * LARGE);
		munlock(lockable, 4 * LARGE);
		madvise(lockable, 4 * LARGE, MADV_DONTNEED);
	}
	return NULL;
}

/* A thread that is cancelled does not vanish while helpers use its stack. */
static void cancelled(void)
{
	lockable = anonymous(4 * LARGE);
	int good = 0;
	for (int i = 0; i < ROUNDS / 4; i++) {
		pthread_t thread;
		void *result = NULL;
		pthread_create(&thread, NULL, lock_for_ever, NULL);
		/* The last of them have time for some whole calls. */
		usleep((useconds_t)(i < ROUNDS / 4 - 5 ? 500 + i * 37 : 50000));
		pthread_cancel(thread);
		pthread_join(thread, &result);
		good += result == PTHREAD_CANCELED;
	}
	munlock(lockable, 4 * LARGE);
	printf("%d of %d\n", good, ROUNDS / 4);
}

/* Threads that change the user: all of them do, those in the middle of a call too. */
static void *use_for_ever(void *good)
{
	while (getuid() == 0)
		*(int *)good += use_memory();
	return NULL;
}

static void users(void)
{
	pthread_t threads[4];
	int good[4] = { 0 };
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, use_for_ever, &good[i]);
	usleep(20000);
	SHOW(setgid(65534));
	SHOW(setuid(65534));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	prctl(PR_SET_DUMPABLE, 1);
	printf("Uid %ld\n", status_of("Uid"));
	char *memory = map(LARGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	SHOW(munmap(memory, LARGE));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "handlers", handlers }, { "nested", nested }, { "jumps", jumps },
	{ "terminated", terminated }, { "cancelled", cancelled }, { "users", users },
};

int main(int number, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; number > 1 && i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			printf("%d tasks, %d descriptors\n", tasks(), descriptors());
			return 0;
		}
	return 98;
}
