/* shmdt: addresses without an attached segment, and parts of a segment. */
#include "say.h"

static long attached(int id)
{
	struct shmid_ds about;
	return shmctl(id, IPC_STAT, &about) ? -1 : (long)about.shm_nattch;
}

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	int id = shmget(IPC_PRIVATE, size, 0600);
	char *at = shmat(id, NULL, 0);
	char *other = map(size, RW, ANON);
	fill(at, size, 1);
	fill(other, size, 2);
	SAY(shmdt(NULL));
	SAY(shmdt(at + 1));
	SAY(shmdt(at + size));
	if (size > PAGE)
		SAY(shmdt(at + PAGE));
	SAY(shmdt(other));
	SAY(shmdt((void *)~0UL));
	SAY(wrong(at, size, 1) + wrong(other, size, 2));
	SAY(attached(id));
	SAY(shmdt(at));
	SAY(attached(id));
	SAY(shmdt(at));
	say_mappings("after", at, size);
	SAY(touch(at, 0));
	SAY(wrong(other, size, 2));
	SAY(munmap(other, size));
	SAY(shmctl(id, IPC_RMID, NULL));
}

/* Parts of an attachment that were unmapped, mapped over, moved or protected. */
static void parts(size_t size)
{
	size_t third = size / 3 / PAGE * PAGE;
	printf("-- parts of %zu KiB\n", size / KB);
	int id = shmget(IPC_PRIVATE, size, 0600);
	char *at = shmat(id, NULL, 0);
	fill(at, size, 5);
	SAY(munmap(at + third, PAGE));
	say_mappings("a hole", at, size);
	SAY(attached(id));
	SAY(wrong(at, third, 5) + (mark_of(third + PAGE, 5) != *(uint64_t *)(at + third + PAGE)));
	SAY(mprotect(at + 2 * third, PAGE, PROT_READ));
	SAY(mmap(at + 2 * third + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == at + 2 * third + PAGE);
	say_mappings("a page of its own", at, size);
	SAY(attached(id));
	SAY(shmdt(at));
	say_mappings("after shmdt", at, size);
	SAY(attached(id));
	SAY(munmap(at, size));
	/* Its start is unmapped: the rest is still attached, but not at this address. */
	at = shmat(id, NULL, 0);
	SAY(munmap(at, PAGE));
	SAY(shmdt(at));
	say_mappings("after shmdt without a start", at, size);
	SAY(attached(id));
	SAY(munmap(at, size));
	SAY(attached(id));
	SAY(shmctl(id, IPC_RMID, NULL));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++)
		size(sizes[i]);
	parts(1 * MB);
	parts(24 * MB);
	return 0;
}
