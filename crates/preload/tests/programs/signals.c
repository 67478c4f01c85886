/* Signals, jumps out of handlers, cancellation and changes of the user in the middle of calls.
 *
 * No loop relies on a call being faster than a signal: SIGALRM is armed for one signal at a time,
 * after at least one whole call, and each loop ends when enough signals have arrived. */
#include "common.h"

#define ROUNDS 50

/* Number of handled signals, and of those that arrived in the middle of a call. */
static volatile sig_atomic_t handled, handled_in_calls;
/* Set while a call under test runs. */
static volatile sig_atomic_t in_call;
static char *lockable;

static void count_signal(void)
{
	handled++;
	handled_in_calls += in_call;
}

/* Schedules one SIGALRM. The delay varies so that signals meet calls at different points; no
 * result depends on it. */
static void arm(int round)
{
	struct itimerval once = { { 0, 0 }, { 0, 50 + round * 137 % 3000 } };
	setitimer(ITIMER_REAL, &once, NULL);
}

static int use_memory(void)
{
	in_call = 1;
	char *memory = mmap(NULL, 4 * LARGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	in_call = 0;
	if (memory == MAP_FAILED)
		return 0;
	fill(memory, 4 * LARGE, 1);
	in_call = 1;
	int good = mlock(memory, 4 * LARGE) == 0;
	in_call = 0;
	good = good && filled(memory, 4 * LARGE, 1);
	in_call = 1;
	good = munmap(memory, 4 * LARGE) == 0 && good;
	in_call = 0;
	return good;
}

/* Locks memory after dropping its pages. */
static int lock_anew(void)
{
	munlock(lockable, 4 * LARGE);
	madvise(lockable, 4 * LARGE, MADV_DONTNEED);
	in_call = 1;
	int good = mlock(lockable, 4 * LARGE) == 0;
	in_call = 0;
	return good;
}

/* Makes calls until ROUNDS signals have arrived in the middle of one. Returns the number of calls
 * that failed. */
static int interrupt_calls(void (*handler)(int))
{
	int failures = 0;
	signal(SIGALRM, handler);
	for (int round = 0; handled_in_calls < ROUNDS; round++) {
		sig_atomic_t before = handled;
		failures += !use_memory();
		arm(round);
		while (handled == before)
			failures += !use_memory();
	}
	return failures;
}

static void count(int signal)
{
	(void)signal;
	count_signal();
}

/* Handlers run as between two system calls. */
static void handlers(void)
{
	printf("%d failures\n", interrupt_calls(count));
}

static volatile sig_atomic_t nested_failures;

/* A handler that makes the calls that it interrupts. */
static void call(int signal)
{
	(void)signal;
	char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED || munmap(memory, LARGE) != 0)
		nested_failures++;
	count_signal();
}

static void nested(void)
{
	int failures = interrupt_calls(call);
	printf("%d failures, %d in handlers\n", failures, (int)nested_failures);
}

static sigjmp_buf before;

static void jump(int signal)
{
	(void)signal;
	count_signal();
	siglongjmp(before, 1);
}

/* A handler that never returns leaves no call half done. */
static void jumps(void)
{
	static volatile int round, failures;
	signal(SIGALRM, jump);
	lockable = anonymous(4 * LARGE);
	sigsetjmp(before, 1);
	if (handled_in_calls < ROUNDS) {
		failures += !lock_anew();
		arm(round++);
		for (;;)
			lock_anew();
	}
	printf("%d failures\n", failures);
	/* The memory is neither partly locked nor still in an intermediate state of a call. */
	munlock(lockable, 4 * LARGE);
	SHOW(mlock(lockable, 4 * LARGE));
	show_mapping("locked", lockable);
}

/* A fatal signal ends the program in the middle of a call, and leaves no process behind. */
static void terminated(void)
{
	for (int i = 0; i < 3; i++)
		use_memory();
	arm(0);
	for (;;)
		use_memory();
}

static int whole_calls;

static void *lock_for_ever(void *unused)
{
	(void)unused;
	int type;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	for (;;) {
		lock_anew();
		count_up(&whole_calls);
	}
	return NULL;
}

/* A cancelled thread does not end while helpers use its stack. */
static void cancelled(void)
{
	lockable = anonymous(4 * LARGE);
	int good = 0;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		void *result = NULL;
		whole_calls = 0;
		pthread_create(&thread, NULL, lock_for_ever, NULL);
		/* Every other thread has made a whole call; the others may not have begun one. */
		if (i & 1)
			wait_for_count(&whole_calls, 1);
		/* Varies the point of the cancellation; no result depends on it. */
		usleep((useconds_t)i * 37);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		good += result == PTHREAD_CANCELED;
	}
	munlock(lockable, 4 * LARGE);
	printf("%d of %d\n", good, ROUNDS);
}

/* All threads change the user together, including those in the middle of a call. */
static void *use_until_user_changes(void *calls)
{
	do {
		use_memory();
		count_up(calls);
	} while (getuid() == 0);
	return NULL;
}

static void users(void)
{
	pthread_t threads[4];
	int calls[4] = { 0 };
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, use_until_user_changes, &calls[i]);
	for (int i = 0; i < 4; i++)
		wait_for_count(&calls[i], 1);
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
