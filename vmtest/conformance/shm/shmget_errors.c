/* shmget: sizes, keys and permissions, as shmget(2) documents them. */
#include "say.h"

int main(void)
{
	key_t key = 0x5eed;
	int id;
	SAY(shmget(IPC_PRIVATE, 0, 0600 | IPC_CREAT));
	SAY(shmget(IPC_PRIVATE, (size_t)-1, 0600 | IPC_CREAT));
	SAY(shmget(key, MB, 0600));
	id = shmget(key, MB, 0600 | IPC_CREAT);
	SAY(id >= 0);
	SAY(shmget(key, MB, 0600 | IPC_CREAT | IPC_EXCL));
	SAY(shmget(key, 2 * MB, 0600));
	SAY(shmget(key, MB / 2, 0600) == id);
	SAY(shmget(key, 0, 0) == id);
	SAY(shmget(key, MB, 0777) == id);
	SAY(shmctl(id, IPC_RMID, NULL));
	SAY(shmget(key, MB, 0));
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct shmid_ds about;
		id = shmget(IPC_PRIVATE, sizes[i] - 1, 0640);
		SAY(id >= 0);
		SAY(shmctl(id, IPC_STAT, &about));
		SAY(about.shm_segsz);
		SAY(about.shm_perm.mode);
		SAY(shmctl(id, IPC_RMID, NULL));
	}
	/* Creates as many segments of one size as possible, and removes all of them. */
	for (int round = 0; round < 2; round++) {
		int ids[64], made = 0;
		for (size_t i = 0; i < COUNT(ids); i++)
			made += (ids[i] = shmget(IPC_PRIVATE, MB, 0600)) >= 0;
		SAY(made);
		for (size_t i = 0; i < COUNT(ids); i++)
			made -= !shmctl(ids[i], IPC_RMID, NULL);
		SAY(made);
	}
	return 0;
}
