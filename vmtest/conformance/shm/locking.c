/* SHM_LOCK and SHM_UNLOCK: permission, limits, the flag, and state that they must not change. */
#include "say.h"

static void say_mode(int id)
{
	struct shmid_ds about;
	if (!shmctl(id, IPC_STAT, &about))
		printf("mode %o%s, attached %lu\n", about.shm_perm.mode & 0777,
			   about.shm_perm.mode & SHM_LOCKED ? " locked" : "", about.shm_nattch);
}

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	int id = shmget(IPC_PRIVATE, size, 0600);
	SAY(shmctl(id, SHM_LOCK, NULL));
	say_mode(id);
	SAY(shmctl(id, SHM_LOCK, NULL));
	say_mode(id);
	char *at = shmat(id, NULL, 0);
	SAY(not_zero(at, size));
	fill(at, size, 1);
	say_locked("attached and locked");
	SAY(shmctl(id, SHM_UNLOCK, NULL));
	say_mode(id);
	SAY(shmctl(id, SHM_UNLOCK, NULL));
	SAY(shmctl(id, SHM_LOCK, NULL));
	SAY(wrong(at, size, 1));
	SAY(shmdt(at));
	say_mode(id);
	at = shmat(id, NULL, SHM_RDONLY);
	SAY(wrong(at, size, 1));
	SAY(touch(at, 1));
	SAY(shmctl(id, IPC_RMID, NULL));
	say_mode(id);
	SAY(shmctl(id, SHM_UNLOCK, NULL));
	SAY(wrong(at, size, 1));
	SAY(shmdt(at));
}

/* Locks up to the limit, frees the memory in every possible way, and locks as much again. */
static void as_much_again(void)
{
	size_t most = 4 * MB;
	limit(RLIMIT_MEMLOCK, most);
	for (int round = 0; round < 4; round++) {
		int id = shmget(IPC_PRIVATE, most, 0600);
		SAY(shmctl(id, SHM_LOCK, NULL));
		char *at = shmat(id, NULL, 0);
		fill(at, most, 9);
		int more = shmget(IPC_PRIVATE, PAGE, 0600);
		SAY(shmctl(more, SHM_LOCK, NULL));
		SAY(shmctl(more, IPC_RMID, NULL));
		if (round & 1)
			SAY(shmctl(id, IPC_RMID, NULL));
		SAY(shmdt(at));
		if (!(round & 1))
			SAY(shmctl(id, IPC_RMID, NULL));
	}
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable); i++)
		size(lockable[i]);
	in_child("as much again", as_much_again);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		int id = shmget(IPC_PRIVATE, sizes[i], 0600);
		limit(RLIMIT_MEMLOCK, 0);
		SAY(shmctl(id, SHM_LOCK, NULL));
		say_mode(id);
		SAY(shmctl(id, SHM_UNLOCK, NULL));
		limit(RLIMIT_MEMLOCK, sizes[i] / 2);
		SAY(shmctl(id, SHM_LOCK, NULL));
		say_mode(id);
		SAY(shmctl(id, IPC_RMID, NULL));
	}
	return 0;
}
