/* shmctl with invalid commands, ids and pointers. */
#include "say.h"

int main(void)
{
	struct shmid_ds about;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		printf("-- %zu KiB\n", sizes[i] / KB);
		int id = shmget(IPC_PRIVATE, sizes[i], 0600);
		SAY(shmctl(id, 4711, &about));
		SAY(shmctl(id, -1, &about));
		SAY(shmctl(id, IPC_STAT, (void *)1));
		SAY(shmctl(id, IPC_SET, (void *)1));
		SAY(shmctl(id, SHM_LOCK, (void *)1));
		SAY(shmctl(id, SHM_UNLOCK, (void *)1));
		SAY(shmctl(id, SHM_UNLOCK, NULL));
		SAY(shmctl(id, IPC_RMID, (void *)1));
		SAY(shmctl(id, IPC_RMID, NULL));
		SAY(shmctl(id, IPC_STAT, &about));
		SAY(shmctl(id, IPC_SET, &about));
		SAY(shmctl(id, SHM_LOCK, NULL));
		SAY(shmctl(id, SHM_UNLOCK, NULL));
	}
	SAY(shmctl(-1, IPC_STAT, &about));
	SAY(shmctl(-1, IPC_RMID, NULL));
	SAY(shmctl(-1, SHM_LOCK, NULL));
	SAY(shmctl(0x7fffffff, SHM_LOCK, NULL));
	SAY(shmctl(0x7fffffff, IPC_RMID, NULL));
	return 0;
}
