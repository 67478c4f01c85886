/* Ways in which a program can end: its last output and its status. */
#include "common.h"

static char *memory;

static void print_with_memory(const char *text)
{
	printf("%s %d\n", text, memory ? filled(memory, 8 * LARGE, 5) : 0);
}

static void first(void)
{
	print_with_memory("atexit, registered first");
}

static void second(void)
{
	print_with_memory("atexit, registered second");
}

static void with_status(int status, void *argument)
{
	printf("on_exit %d %s\n", status, (const char *)argument);
}

__attribute__((constructor)) static void begin(void)
{
	atexit(first);
}

__attribute__((destructor)) static void end(void)
{
	print_with_memory("destructor");
}

static int running;

static void *use_for_ever(void *unused)
{
	(void)unused;
	for (int is_counted = 0;; is_counted = 1) {
		/* The memory must stay until the process has ended. */
		if (!filled(memory, 8 * LARGE, 5))
			abort();
		if (!is_counted)
			count_up(&running);
	}
	return NULL;
}

static void *leave_process(void *how)
{
	if (!strcmp(how, "exit"))
		exit(3);
	_exit(4);
	return NULL;
}

static void prepare(void)
{
	atexit(second);
	on_exit(with_status, "argument");
	memory = anonymous(8 * LARGE);
	fill(memory, 8 * LARGE, 5);
	char *shared = map(8 * LARGE, MAP_SHARED | MAP_ANONYMOUS);
	fill(shared, 8 * LARGE, 6);
	/* Left open with unwritten data: only exit(3) writes it. */
	FILE *file = fopen("left", "w");
	setvbuf(file, memory + PAGE, _IOFBF, PAGE);
	memory = NULL;
	fprintf(file, "all of it");
	printf("written at the end\n");
}

static void start_thread(void *(*run)(void *), const char *argument)
{
	pthread_t thread;
	pthread_create(&thread, NULL, run, (void *)argument);
}

/* Children that end while they use a segment, shared memory and private memory. */
static void child_ends(void)
{
	int id = new_segment(8 * LARGE, 0);
	char *segment = shmat(id, NULL, 0), *shared = map(8 * LARGE, MAP_SHARED | MAP_ANONYMOUS);
	memory = anonymous(8 * LARGE);
	fill(memory, 8 * LARGE, 5);
	for (int i = 0; i < 3; i++) {
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			fill(segment, 8 * LARGE, (unsigned)i);
			fill(shared, 8 * LARGE, (unsigned)i + 1);
			fill(memory, 8 * LARGE, 9);
			memory = NULL;
			if (i == 0)
				exit(1);
			if (i == 1)
				_exit(2);
			_Exit(3);
		}
		int status;
		waitpid(child, &status, 0);
		printf("%x %d %d %d\n", status, filled(segment, 8 * LARGE, (unsigned)i),
		       filled(shared, 8 * LARGE, (unsigned)i + 1), filled(memory, 8 * LARGE, 5));
		show_segment("segment", id);
	}
	shmctl(id, IPC_RMID, NULL);
}

/* A process that ends while it holds a robust lock: the next owner is notified, although the kernel
 * reaches the lock only through another one in private memory. */
static void left_locks(void)
{
	pthread_mutexattr_t robust;
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
	pthread_mutex_t *shared = map(PAGE, MAP_SHARED | MAP_ANONYMOUS);
	pthread_mutex_init(shared, &robust);
	memory = anonymous(8 * LARGE);
	fill(memory, 8 * LARGE, 5);
	pthread_mutex_t *mine = (pthread_mutex_t *)(memory + LARGE);
	memory = NULL;
	pthread_mutex_init(mine, &robust);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		pthread_mutex_lock(shared);
		pthread_mutex_lock(mine);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	int error = pthread_mutex_lock(shared);
	printf("%s\n", strerrorname_np(error));
	pthread_mutex_consistent(shared);
	pthread_mutex_unlock(shared);
}

static void leave_in_handler(int signal)
{
	_exit(40 + signal);
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";
	if (!strcmp(name, "children")) {
		child_ends();
		return 0;
	}
	if (!strcmp(name, "locks")) {
		left_locks();
		return 0;
	}
	prepare();
	if (!strcmp(name, "return"))
		return 1;
	if (!strcmp(name, "exit"))
		exit(2);
	if (!strcmp(name, "_exit"))
		_exit(3);
	if (!strcmp(name, "_Exit"))
		_Exit(4);
	if (!strcmp(name, "quick_exit"))
		quick_exit(5);
	if (!strcmp(name, "abort"))
		abort();
	if (!strcmp(name, "kill"))
		raise(SIGKILL);
	if (!strcmp(name, "handler")) {
		signal(SIGUSR1, leave_in_handler);
		raise(SIGUSR1);
	}
	if (!strcmp(name, "exit-status"))
		exit(0x1234);
	if (!strcmp(name, "thread-exits")) {
		start_thread(leave_process, "exit");
		pause();
	}
	if (!strcmp(name, "thread-leaves")) {
		start_thread(leave_process, "_exit");
		pause();
	}
	if (!strcmp(name, "last-thread")) {
		start_thread(leave_process, "exit");
		pthread_exit(NULL);
	}
	if (!strcmp(name, "threads-run") || !strcmp(name, "threads-run-exit")) {
		memory = anonymous(8 * LARGE);
		fill(memory, 8 * LARGE, 5);
		for (int i = 0; i < 4; i++)
			start_thread(use_for_ever, NULL);
		wait_for_count(&running, 4);
		if (!strcmp(name, "threads-run"))
			_exit(7);
		exit(8);
	}
	return 98;
}
