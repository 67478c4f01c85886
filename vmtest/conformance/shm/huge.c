/* SHM_HUGETLB: errors if there are no huge pages, or none for this user. */
#include "say.h"

int main(void)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r");
	int pages = -1;
	if (file && fscanf(file, "%d", &pages) == 1)
		SAY(pages);
	static const size_t huge[] = {PAGE, 2 * MB, 64 * MB};
	for (size_t i = 0; i < COUNT(huge); i++) {
		int id = shmget(IPC_PRIVATE, huge[i], 0600 | SHM_HUGETLB);
		if (id < 0) {
			printf("%zu KiB: %s\n", huge[i] / KB, strerrorname_np(errno));
			continue;
		}
		struct shmid_ds about;
		char *at = SAY_ADDRESS(shmat(id, NULL, 0));
		SAY(shmctl(id, IPC_STAT, &about));
		SAY(about.shm_segsz);
		if (at != FAILED)
			SAY(shmdt(at));
		SAY(shmctl(id, IPC_RMID, NULL));
	}
	SAY(shmget(IPC_PRIVATE, 2 * MB, 0600 | SHM_HUGETLB | (29 << MAP_HUGE_SHIFT)));
	return 0;
}
