/* Calls, each of which the policy can leave plain. */
#include "common.h"

static void all(void)
{
	char *memory = map(4 * LARGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	munmap(memory, 4 * LARGE);
	memory = anonymous(4 * LARGE);
	madvise(memory, LARGE, MADV_POPULATE_WRITE);
	mlock(memory, 4 * LARGE);
	munlock(memory, 4 * LARGE);
	mlockall(MCL_CURRENT);
	munlockall();
	int id = new_segment(4 * LARGE, 0);
	memory = shmat(id, NULL, 0);
	shmdt(memory);
	memory = shmat(id, NULL, 0);
	shmctl(id, SHM_LOCK, NULL);
	fill(memory, 4 * LARGE, 1);
	shmdt(memory);
	shmctl(id, IPC_RMID, NULL);
	memory = anonymous(4 * LARGE);
	fill(memory, 4 * LARGE, 1);
	printf("done\n");
}

static void huge(void)
{
	char *memory = map(16 * LARGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	show_mapping("private", memory);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	memory = map(16 * LARGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
	show_mapping("without", memory);
}

int main(int count, char **arguments)
{
	if (count > 1 && !strcmp(arguments[1], "huge"))
		huge();
	else
		all();
	return 0;
}
