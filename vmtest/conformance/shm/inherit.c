/* Segments across fork, exec and process exit. */
#include "say.h"

static long attached(int id)
{
	struct shmid_ds about;
	return shmctl(id, IPC_STAT, &about) ? -1 : (long)about.shm_nattch;
}

static int id;
static size_t size_now;
static char *at;

static void by_exit(void)
{
	SAY(attached(id));
	SAY(wrong(at, size_now, 1));
	fill(at, size_now, 2);
	exit(3);
}

static void by_underscore_exit(void)
{
	_exit(4);
}

static void by_signal(void)
{
	fill(at, size_now, 3);
	raise(SIGKILL);
}

static void detaches_and_destroys(void)
{
	SAY(shmdt(at));
	SAY(shmctl(id, IPC_RMID, NULL));
}

static void attaches_again(void)
{
	char *more = SAY_ADDRESS(shmat(id, NULL, 0));
	SAY(attached(id));
	SAY(wrong(more, size_now, 3));
}

int main(int count, char **arguments)
{
	if (count == 3) {
		id = atoi(arguments[1]);
		size_now = strtoul(arguments[2], NULL, 10);
		SAY(attached(id));
		at = SAY_ADDRESS(shmat(id, NULL, 0));
		SAY(wrong(at, size_now, 3));
		SAY(attached(id));
		return 5;
	}
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_now = sizes[i];
		printf("-- %zu KiB\n", size_now / KB);
		id = shmget(IPC_PRIVATE, size_now, 0600);
		at = shmat(id, NULL, 0);
		fill(at, size_now, 1);
		in_child("exit", by_exit);
		SAY(attached(id));
		SAY(wrong(at, size_now, 2));
		in_child("_exit", by_underscore_exit);
		SAY(attached(id));
		in_child("a signal", by_signal);
		SAY(attached(id));
		SAY(wrong(at, size_now, 3));
		in_child("attaching again", attaches_again);
		SAY(attached(id));
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			char number[2][24];
			snprintf(number[0], sizeof number[0], "%d", id);
			snprintf(number[1], sizeof number[1], "%zu", size_now);
			execl("/proc/self/exe", "inherit", number[0], number[1], NULL);
			_exit(127);
		}
		int status;
		waitpid(child, &status, 0);
		SAY(WEXITSTATUS(status));
		SAY(attached(id));
		in_child("destroying", detaches_and_destroys);
		SAY(attached(id));
		SAY(wrong(at, size_now, 3));
		SAY(shmdt(at));
		SAY(attached(id));
	}
	return 0;
}
