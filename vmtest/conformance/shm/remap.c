/* SHM_REMAP: a segment replaces an existing mapping, whole or in part. */
#include "say.h"

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	int one = shmget(IPC_PRIVATE, size, 0600), two = shmget(IPC_PRIVATE, size, 0600);
	struct shmid_ds about;
	char *room = map(3 * size, RW, ANON);
	fill(room, 3 * size, 7);
	SAY_ADDRESS(shmat(one, room + size, 0));
	SAY(shmat(one, room + size, SHM_REMAP) == room + size);
	SAY(not_zero(room + size, size));
	say_mappings("after", room, 3 * size);
	fill(room + size, size, 8);
	SAY(shmat(two, room + size, SHM_REMAP | SHM_RDONLY) == room + size);
	SAY(not_zero(room + size, size));
	SAY(touch(room + size, 1));
	say_mappings("after the second", room, 3 * size);
	SAY(shmctl(one, IPC_STAT, &about));
	SAY(about.shm_nattch);
	SAY(shmctl(two, IPC_STAT, &about));
	SAY(about.shm_nattch);
	/* Across the end of one mapping and the start of another. */
	SAY(shmat(one, room + size / 2 / PAGE * PAGE, SHM_REMAP) == room + size / 2 / PAGE * PAGE);
	SAY(wrong(room + size / 2 / PAGE * PAGE, size, 8));
	say_mappings("after the third", room, 3 * size);
	SAY(shmctl(two, IPC_STAT, &about));
	SAY(about.shm_nattch);
	SAY(shmdt(room + size));
	SAY(shmdt(room + size / 2 / PAGE * PAGE));
	say_mappings("after shmdt", room, 3 * size);
	SAY(shmctl(one, IPC_RMID, NULL));
	SAY(shmctl(two, IPC_RMID, NULL));
	SAY(munmap(room, 3 * size));
	say_mappings("after munmap", room, 3 * size);
	SAY(shmctl(two, IPC_STAT, &about));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++)
		size(sizes[i]);
	return 0;
}
