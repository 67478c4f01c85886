/* A child that shares its parent's memory ends by _exit: the parent's memory must remain. */
#include <sched.h>
#include <spawn.h>

#include "say.h"

extern char **environ;

static char *at;
static size_t size_now;

static int shares(void *unused)
{
	(void)unused;
	*(uint64_t *)at = mark_of(0, 1);
	_exit(5);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		int status;
		size_now = sizes[i];
		printf("-- %zu KiB\n", size_now / KB);
		at = map(size_now, RW, ANON | MAP_POPULATE);
		char *shared = map(size_now, RW, SHARED | MAP_POPULATE);
		int id = shmget(IPC_PRIVATE, size_now, 0600);
		char *segment = shmat(id, NULL, 0);
		fill(at, size_now, 1);
		fill(shared, size_now, 2);
		fill(segment, size_now, 3);
		fflush(stdout);
		pid_t child = vfork();
		if (child == 0)
			_exit(4);
		SAY(waitpid(child, &status, 0) == child);
		SAY(WEXITSTATUS(status));
		SAY(wrong(at, size_now, 1) + wrong(shared, size_now, 2) + wrong(segment, size_now, 3));
		child = vfork();
		if (child == 0) {
			execl("/nonexistent", "nonexistent", NULL);
			_exit(127);
		}
		SAY(waitpid(child, &status, 0) == child);
		SAY(WEXITSTATUS(status));
		SAY(wrong(at, size_now, 1) + wrong(shared, size_now, 2) + wrong(segment, size_now, 3));
		static char stack[256 * 1024] __attribute__((aligned(16)));
		child = clone(shares, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
		SAY(waitpid(child, &status, 0) == child);
		SAY(WEXITSTATUS(status));
		SAY(wrong(at, size_now, 1) + wrong(shared, size_now, 2) + wrong(segment, size_now, 3));
		child = clone(shares, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, NULL);
		SAY(waitpid(child, &status, 0) == child);
		SAY(wrong(at, size_now, 1) + wrong(shared, size_now, 2) + wrong(segment, size_now, 3));
		char *const arguments[] = {"true", NULL};
		SAY(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ));
		SAY(waitpid(child, &status, 0) == child);
		SAY(status);
		SAY(system("exit 6"));
		SAY(wrong(at, size_now, 1) + wrong(shared, size_now, 2) + wrong(segment, size_now, 3));
		SAY(shmctl(id, IPC_RMID, NULL));
		SAY(shmdt(segment));
		SAY(munmap(at, size_now));
		SAY(munmap(shared, size_now));
	}
	return 0;
}
