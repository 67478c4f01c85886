/* IPC_RMID: a segment loses its key, lives until its last detach, and is then removed at once. */
#include "say.h"

static void say_info(const char *when)
{
	struct shm_info info;
	int highest = shmctl(0, SHM_INFO, (void *)&info);
	printf("%s: %d segments, %lu pages, highest index %d\n", when, info.used_ids, info.shm_tot, highest);
}

static void size(size_t size)
{
	struct shmid_ds about;
	key_t key = 0xdead;
	printf("-- %zu KiB\n", size / KB);
	int id = shmget(key, size, 0600 | IPC_CREAT | IPC_EXCL);
	char *at = SAY_ADDRESS(shmat(id, NULL, 0));
	fill(at, size, 3);
	say_info("attached");
	SAY(shmctl(id, IPC_RMID, NULL));
	say_info("destroyed");
	SAY(shmctl(id, IPC_STAT, &about));
	SAY(about.shm_perm.mode == (0600 | SHM_DEST));
	SAY(about.shm_perm.__key == IPC_PRIVATE);
	SAY(shmctl(id, IPC_RMID, NULL));
	SAY(shmget(key, size, 0));
	/* The same key now creates a different segment. */
	int other = shmget(key, PAGE, 0600 | IPC_CREAT | IPC_EXCL);
	SAY(other >= 0 && other != id);
	SAY(shmctl(other, IPC_RMID, NULL));
	/* It can be attached by its id as long as an attachment remains. */
	char *again = SAY_ADDRESS(shmat(id, NULL, SHM_RDONLY));
	SAY(wrong(again, size, 3));
	SAY(shmdt(at));
	say_info("detached once");
	SAY(wrong(again, size, 3));
	SAY(shmctl(id, IPC_STAT, &about));
	SAY(about.shm_nattch);
	SAY(shmdt(again));
	say_info("detached twice");
	SAY(shmctl(id, IPC_STAT, &about));
	SAY_ADDRESS(shmat(id, NULL, 0));
	/* A segment that was never attached, and one that was attached and detached. */
	id = shmget(key, size, 0600 | IPC_CREAT | IPC_EXCL);
	SAY(id >= 0);
	SAY(shmctl(id, IPC_RMID, NULL));
	say_info("never attached");
	id = shmget(key, size, 0600 | IPC_CREAT | IPC_EXCL);
	at = shmat(id, NULL, 0);
	fill(at, size, 4);
	SAY(shmdt(at));
	say_info("detached, not destroyed");
	SAY(shmctl(id, IPC_RMID, NULL));
	say_info("destroyed last");
	SAY(shmget(key, size, 0));
	SAY(shmctl(id, IPC_STAT, &about));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++)
		size(sizes[i]);
	return 0;
}
