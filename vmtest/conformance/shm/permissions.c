/* Permissions of a segment for its owner and for another user. For root, only limits apply. */
#include "say.h"

static int ids[4];
static const int modes[] = {0600, 0400, 0200, 0000};

static void try(void)
{
	for (size_t i = 0; i < COUNT(ids); i++) {
		printf("mode %04o\n", modes[i]);
		char *at = SAY_ADDRESS(shmat(ids[i], NULL, 0));
		if (at != FAILED)
			SAY(shmdt(at));
		at = SAY_ADDRESS(shmat(ids[i], NULL, SHM_RDONLY));
		if (at != FAILED) {
			SAY(touch(at, 0));
			SAY(touch(at, 1));
			SAY(shmdt(at));
		}
		struct shmid_ds about;
		SAY(shmctl(ids[i], IPC_STAT, &about));
		SAY(shmctl(ids[i], SHM_LOCK, NULL));
		SAY(shmctl(ids[i], SHM_UNLOCK, NULL));
		about.shm_perm.mode = 0600;
		SAY(shmctl(ids[i], IPC_SET, &about));
		about.shm_perm.mode = modes[i];
		SAY(shmctl(ids[i], IPC_SET, &about));
	}
}

static void as_another(void)
{
	if (setgid(12345) || setuid(12345)) {
		printf("no other user available\n");
		return;
	}
	try();
	for (size_t i = 0; i < COUNT(ids); i++)
		SAY(shmctl(ids[i], IPC_RMID, NULL));
}

int main(void)
{
	for (size_t size = 64 * KB; size <= 16 * MB; size *= 16) {
		for (size_t i = 0; i < COUNT(ids); i++)
			ids[i] = shmget(0x100 + i, size, modes[i] | IPC_CREAT);
		try();
		in_child("as another user", as_another);
		for (size_t i = 0; i < COUNT(ids); i++)
			SAY(shmctl(ids[i], IPC_RMID, NULL));
	}
	return 0;
}
