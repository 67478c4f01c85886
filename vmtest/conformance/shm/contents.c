/* The contents of a segment: zeros at first, also after its last byte; then the data written, as long as the segment
 * exists. */
#include "say.h"

static void size(size_t size)
{
	size_t odd = size - PAGE + 100;
	printf("-- %zu bytes\n", odd);
	int id = shmget(IPC_PRIVATE, odd, 0600);
	char *at = shmat(id, NULL, 0);
	SAY(not_zero(at, size));
	SAY(touch(at + size - 1, 1));
	SAY(at[size - 1]);
	for (size_t place = 0; place < size; place += 37 * PAGE)
		at[place] = 42;
	SAY(shmdt(at));
	at = shmat(id, NULL, 0);
	size_t found = 0;
	for (size_t place = 0; place < size; place++)
		found += at[place] == 42;
	SAY(found == (size + 37 * PAGE - 1) / (37 * PAGE));
	SAY(not_zero(at, size) == found + 1);
	fill(at, size, 6);
	SAY(shmctl(id, IPC_RMID, NULL));
	SAY(wrong(at, size, 6));
	/* The same pages at two addresses. */
	char *other = shmat(id, NULL, 0);
	fill(other, size, 7);
	SAY(wrong(at, size, 7));
	SAY(shmdt(other));
	SAY(wrong(at, size, 7));
	SAY(madvise(at, size, MADV_DONTNEED));
	SAY(wrong(at, size, 7));
	SAY(madvise(at, size, MADV_REMOVE));
	SAY(not_zero(at, size));
	SAY(shmdt(at));
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++)
		size(sizes[i]);
	return 0;
}
