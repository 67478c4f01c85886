/* IPC_STAT: every field, over the lifetime of a segment. */
#include <time.h>

#include "say.h"

static pid_t creator;

static void say_stat(const char *when, int id, pid_t child, time_t from)
{
	struct shmid_ds about;
	printf("%s:\n", when);
	if (SAY(shmctl(id, IPC_STAT, &about)))
		return;
	time_t to = time(NULL);
	SAY(about.shm_segsz);
	SAY(about.shm_nattch);
	printf("mode %o uid %d gid %d cuid %d cgid %d\n", about.shm_perm.mode, about.shm_perm.uid == geteuid(),
		   about.shm_perm.gid == getegid(), about.shm_perm.cuid == geteuid(), about.shm_perm.cgid == getegid());
	printf("made by %s, last used by %s\n", about.shm_cpid == creator ? "this process" : "another",
		   about.shm_lpid == 0         ? "nobody"
		   : about.shm_lpid == creator ? "this process"
		   : about.shm_lpid == child   ? "its child"
									   : "another");
	printf("attached %s, detached %s, changed %s\n",
		   about.shm_atime ? about.shm_atime >= from && about.shm_atime <= to ? "now" : "at another time" : "never",
		   about.shm_dtime ? about.shm_dtime >= from && about.shm_dtime <= to ? "now" : "at another time" : "never",
		   about.shm_ctime >= from && about.shm_ctime <= to ? "now" : "at another time");
}

static void size(size_t size)
{
	time_t from = time(NULL);
	printf("-- %zu KiB\n", size / KB);
	int id = shmget(IPC_PRIVATE, size - 100, 0640);
	say_stat("made", id, 0, from);
	char *at = shmat(id, NULL, 0);
	say_stat("attached", id, 0, from);
	char *other = shmat(id, NULL, SHM_RDONLY);
	say_stat("attached twice", id, 0, from);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(shmdt(at) || shmdt(other) ? 1 : 0);
	int status;
	waitpid(child, &status, 0);
	SAY(status);
	say_stat("a child detached its own", id, child, from);
	SAY(shmdt(other));
	say_stat("detached once", id, child, from);
	struct shmid_ds about;
	SAY(shmctl(id, IPC_STAT, &about));
	about.shm_perm.mode = 0606;
	SAY(shmctl(id, IPC_SET, &about));
	say_stat("changed", id, child, from);
	SAY(shmctl(id, IPC_RMID, NULL));
	say_stat("destroyed while attached", id, child, from);
	SAY(shmdt(at));
	say_stat("detached", id, child, from);
}

int main(void)
{
	creator = getpid();
	for (size_t i = 0; i < COUNT(sizes); i++)
		size(sizes[i]);
	return 0;
}
