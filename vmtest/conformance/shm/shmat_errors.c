/* shmat with invalid combinations of ids, addresses and flags. */
#include "say.h"

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	int id = shmget(IPC_PRIVATE, size, 0600);
	char *at = SAY_ADDRESS(shmat(id, NULL, 0));
	SAY_ADDRESS(shmat(id, at + 1, 0));
	SAY_ADDRESS(shmat(id, at + 1, SHM_RND));
	SAY_ADDRESS(shmat(id, at, 0));
	SAY_ADDRESS(shmat(id, NULL, SHM_REMAP));
	SAY_ADDRESS(shmat(id, at + 1, SHM_REMAP));
	SAY_ADDRESS(shmat(id, (void *)(~0UL & ~(PAGE - 1)), 0));
	SAY_ADDRESS(shmat(id, (void *)0x7ffffffff000, 0));
	struct shmid_ds about;
	SAY(shmctl(id, IPC_STAT, &about));
	SAY(about.shm_nattch);
	fill(at, size, 1);
	SAY(shmdt(at));
	char *again = SAY_ADDRESS(shmat(id, at, 0));
	SAY(again == at);
	SAY(wrong(at, size, 1));
	SAY(shmdt(at));
	char *rounded = SAY_ADDRESS(shmat(id, at + 5, SHM_RND));
	SAY(rounded == at);
	SAY(wrong(at, size, 1));
	SAY(shmdt(at));
	SAY(shmctl(id, IPC_RMID, NULL));
	SAY_ADDRESS(shmat(id, NULL, 0));
}

int main(void)
{
	SAY_ADDRESS(shmat(-1, NULL, 0));
	SAY_ADDRESS(shmat(12345678, NULL, 0));
	for (size_t i = 0; i < COUNT(sizes); i++)
		size(sizes[i]);
	return 0;
}
