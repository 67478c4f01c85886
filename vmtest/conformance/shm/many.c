/* One segment attached many times in a process, and many segments. */
#include "say.h"

static long attached(int id)
{
	struct shmid_ds about;
	return shmctl(id, IPC_STAT, &about) ? -1 : (long)about.shm_nattch;
}

static void one_many_times(size_t size)
{
	char *at[24];
	printf("-- %zu KiB, many times\n", size / KB);
	int id = shmget(IPC_PRIVATE, size, 0600);
	for (size_t i = 0; i < COUNT(at); i++)
		at[i] = shmat(id, NULL, i & 1 ? SHM_RDONLY : 0);
	SAY(attached(id));
	for (size_t i = 0; i < COUNT(at); i += 2)
		fill(at[i], size, i);
	size_t bad = 0;
	for (size_t i = 0; i < COUNT(at); i++)
		bad += wrong(at[i], size, COUNT(at) - 2);
	SAY(bad);
	SAY(shmctl(id, IPC_RMID, NULL));
	for (size_t i = 0; i < COUNT(at); i++)
		if (shmdt(at[i * 7 % COUNT(at)]))
			SAY(errno);
		else if (i < COUNT(at) - 1)
			bad += wrong(at[(i + 1) * 7 % COUNT(at)], size, COUNT(at) - 2);
	SAY(bad);
	SAY(attached(id));
}

static void several(size_t size)
{
	int ids[16];
	char *at[16];
	size_t bad = 0;
	printf("-- %zu KiB, several\n", size / KB);
	for (size_t i = 0; i < COUNT(ids); i++) {
		ids[i] = shmget(IPC_PRIVATE, size, 0600);
		at[i] = shmat(ids[i], NULL, 0);
		fill(at[i], size, i);
	}
	for (size_t i = 0; i < COUNT(ids); i += 2) {
		bad += shmctl(ids[i], IPC_RMID, NULL) != 0;
		bad += shmdt(at[i]) != 0;
	}
	for (size_t i = 1; i < COUNT(ids); i += 2) {
		bad += wrong(at[i], size, i);
		bad += attached(ids[i]) != 1;
		bad += shmdt(at[i]) != 0;
		bad += shmctl(ids[i], IPC_RMID, NULL) != 0;
	}
	SAY(bad);
	struct shm_info info;
	SAY(shmctl(0, SHM_INFO, (void *)&info));
	SAY(info.used_ids);
	SAY(info.shm_tot);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		one_many_times(sizes[i] > 8 * MB ? 8 * MB : sizes[i]);
		several(sizes[i] > 16 * MB ? 16 * MB : sizes[i]);
	}
	return 0;
}
