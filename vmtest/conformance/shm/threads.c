/* Many threads create, fill, check and destroy segments at the same time, including one that they share. */
#include <pthread.h>

#include "say.h"

#define THREADS 8
#define ROUNDS 12

static int shared;
static size_t bad[THREADS];

static void *work(void *argument)
{
	size_t mine = (size_t)argument;
	for (size_t round = 0; round < ROUNDS; round++) {
		size_t size = sizes[(mine + round) % (COUNT(sizes) - 1)];
		int id = shmget(IPC_PRIVATE, size, 0600);
		char *at = shmat(id, NULL, 0), *common = shmat(shared, NULL, 0);
		if (at == FAILED || common == FAILED) {
			bad[mine]++;
			continue;
		}
		bad[mine] += not_zero(at, size);
		fill(at, size, mine);
		fill(common + mine * MB, MB, mine);
		bad[mine] += shmctl(id, IPC_RMID, NULL) != 0;
		bad[mine] += wrong(at, size, mine) + wrong(common + mine * MB, MB, mine);
		bad[mine] += shmdt(at) != 0;
		bad[mine] += shmdt(common) != 0;
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	struct shmid_ds about;
	struct shm_info info;
	shared = shmget(IPC_PRIVATE, THREADS * MB, 0600);
	char *at = shmat(shared, NULL, 0);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			stop("pthread_create");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < THREADS; i++) {
		SAY(bad[i]);
		SAY(wrong(at + i * MB, MB, i));
	}
	SAY(shmctl(shared, IPC_STAT, &about));
	SAY(about.shm_nattch);
	SAY(shmctl(shared, IPC_RMID, NULL));
	SAY(shmdt(at));
	shmctl(0, SHM_INFO, (void *)&info);
	SAY(info.used_ids);
	SAY(info.shm_tot);
	return 0;
}
