/* Programs that end while other threads run and use memory. */
#include "common.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#define THREADS 4
#define EACH (2 * LARGE)

static char *memory;
static pthread_barrier_t all_started;

/* The memory must not change before the end of the process. */
static void check(void)
{
	if (!filled(memory, EACH, 5))
		abort();
}

static void *use_memory(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&all_started);
	for (;;)
		check();
	return NULL;
}

static void *sleep_and_use(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&all_started);
	for (;;) {
		usleep(50);
		check();
	}
	return NULL;
}

static void *wait_in_read(void *unused)
{
	int ends[2];
	char byte;
	(void)unused;
	if (pipe(ends) != 0)
		abort();
	pthread_barrier_wait(&all_started);
	/* No signal that is visible to the program interrupts this call. */
	if (read(ends[0], &byte, 1) != 1)
		abort();
	return NULL;
}

static void *hold_signals(void *unused)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return use_memory(unused);
}

/* Blocks all signals, even the internal ones of the C library. */
static void *hold_all_signals(void *unused)
{
	unsigned long all = ~0UL;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
	return use_memory(unused);
}

static void *start_others(void *unused)
{
	pthread_t thread;
	for (int i = 0; i < 20; i++)
		check();
	/* The chain ends at the limit of threads. */
	if (pthread_create(&thread, NULL, start_others, unused) == 0)
		pthread_detach(thread);
	return NULL;
}

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void report_stuck(int signal)
{
	(void)signal;
	static const char text[] = "stuck\n";
	if (write(1, text, sizeof text - 1) < 0)
		abort();
	syscall(SYS_exit_group, 1);
}

static int forks;

/* Forks children with several threads that change the group: the C library then signals each
 * thread. */
static void *fork_others(void *unused)
{
	pthread_barrier_wait(&all_started);
	for (;;) {
		pid_t child = fork();
		if (child == 0) {
			pthread_t thread;
			signal(SIGALRM, report_stuck);
			/* Only a safety limit. */
			alarm(300);
			for (int i = 0; i < 4; i++)
				if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
					abort();
			if (setgid(getgid()) != 0)
				abort();
			syscall(SYS_exit_group, 0);
		}
		count_up(&forks);
		int status;
		if (waitpid(child, &status, 0) == child && status != 0) {
			printf("child: %x\n", status);
			fflush(stdout);
		}
	}
	return unused;
}

static pthread_mutex_t *shared_lock;

static void *hold_lock(void *unused)
{
	pthread_mutex_lock(shared_lock);
	return sleep_and_use(unused);
}

/* Uses the memory until the parent has ended, and for a moment longer: missing pages would be
 * detected. */
static void outlive(pid_t parent)
{
	while (getppid() == parent)
		check();
	for (int i = 0; i < 30; i++)
		check();
	/* A direct system call: _exit would free the memory, whose only user is now this process. */
	syscall(SYS_exit_group, 0);
}

static void *wait_for_vforked(void *unused)
{
	(void)unused;
	pid_t parent = getpid(), child = vfork();
	if (child == 0) {
		pthread_barrier_wait(&all_started);
		outlive(parent);
	}
	return NULL;
}

static int child_in_memory(void *parent)
{
	outlive(*(pid_t *)parent);
	return 0;
}

static void start(void *(*run)(void *), int own_stack)
{
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	if (own_stack)
		pthread_attr_setstack(&attributes, anonymous(LARGE), LARGE);
	if (pthread_create(&thread, &attributes, run, NULL) != 0)
		abort();
}

static void start_all(void *(*run)(void *), int own_stack)
{
	pthread_barrier_init(&all_started, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		start(run, own_stack);
	pthread_barrier_wait(&all_started);
}

/* Registers the memory with userfaultfd: freeing its pages waits until the event has been read. */
static void watch_memory(void)
{
	int events = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMOVE };
	struct uffdio_register area = {
		.range = { .start = (uintptr_t)memory, .len = EACH },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	if (events < 0 || ioctl(events, UFFDIO_API, &api) != 0 || ioctl(events, UFFDIO_REGISTER, &area) != 0)
		exit(77);
}

static void lock_of_others(void)
{
	pthread_mutexattr_t robust;
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
	shared_lock = map(PAGE, MAP_SHARED | MAP_ANONYMOUS);
	pthread_mutex_init(shared_lock, &robust);
	pid_t child = fork();
	if (child == 0) {
		pthread_barrier_init(&all_started, NULL, 2);
		start(hold_lock, 1);
		pthread_barrier_wait(&all_started);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	int error = pthread_mutex_lock(shared_lock);
	printf("%s\n", strerrorname_np(error));
	fflush(stdout);
}

static void *end_with_it(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&all_started);
	_exit(6);
	return NULL;
}

/* True if the first thread has ended: it stays a zombie until the process ends. */
static int first_has_ended(void)
{
	char line[512] = "", *fields;
	FILE *file = fopen("/proc/self/stat", "r");
	int ended = file && fgets(line, sizeof line, file) && (fields = strrchr(line, ')')) && fields[2] == 'Z';
	if (file)
		fclose(file);
	return ended;
}

static void *end_after_first(void *unused)
{
	(void)unused;
	while (!first_has_ended())
		sched_yield();
	exit(7);
	return NULL;
}

static void at_end(void)
{
	printf("at exit %d\n", filled(memory, EACH, 5));
}

/* The function that each of THREADS threads runs when the process ends. */
static const struct {
	const char *name;
	void *(*run)(void *);
	int own_stacks;
} cases[] = {
	{ "run", use_memory, 0 },
	{ "_exit", use_memory, 0 },
	{ "sleep", sleep_and_use, 0 },
	{ "read", wait_in_read, 0 },
	{ "own-stacks", sleep_and_use, 1 },
	{ "hold-signals", hold_signals, 0 },
	{ "hold-all-signals", hold_all_signals, 0 },
	{ "vfork", wait_for_vforked, 0 },
	{ "forks", fork_others, 0 },
	{ "child-in-memory", use_memory, 0 },
	{ "watched-memory", sleep_and_use, 0 },
	{ "at-once", end_with_it, 0 },
};

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";
	memory = anonymous(EACH);
	fill(memory, EACH, 5);
	atexit(at_end);
	if (!strcmp(name, "watched-memory"))
		watch_memory();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(name, cases[i].name))
			start_all(cases[i].run, cases[i].own_stacks);
	if (!strcmp(name, "forks"))
		wait_for_count(&forks, 2 * THREADS);
	if (!strcmp(name, "start-others"))
		for (int i = 0; i < THREADS; i++)
			start(start_others, 0);
	static pid_t parent;
	parent = getpid();
	if (!strcmp(name, "child-in-memory") &&
	    clone(child_in_memory, anonymous(LARGE) + LARGE, CLONE_VM | SIGCHLD, &parent) < 0)
		abort();
	if (!strcmp(name, "locks")) {
		lock_of_others();
		return 0;
	}
	if (!strcmp(name, "first-ended")) {
		start(end_after_first, 0);
		pthread_exit(NULL);
	}
	if (!strcmp(name, "_exit") || !strcmp(name, "at-once"))
		_exit(6);
	exit(5);
}
