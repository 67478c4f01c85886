/* mlock of an attached segment: accounting after shmdt, destruction and fork. */
#include "say.h"

static void child(void)
{
	say_locked("in a child");
}

static void size(size_t size)
{
	printf("-- %zu KiB\n", size / KB);
	int id = shmget(IPC_PRIVATE, size, 0600);
	char *at = shmat(id, NULL, 0);
	SAY(mlock(at, size));
	say_locked("locked");
	say_resident("locked", at, size);
	say_mappings("locked", at, size);
	in_child("a child", child);
	SAY(munlock(at, size));
	say_locked("unlocked");
	say_resident("unlocked", at, size);
	SAY(mlock2(at, size, MLOCK_ONFAULT));
	say_locked("locked on fault");
	SAY(shmctl(id, IPC_RMID, NULL));
	SAY(shmdt(at));
	say_locked("detached");
	id = shmget(IPC_PRIVATE, size, 0600);
	SAY(mlockall(MCL_FUTURE));
	at = SAY_ADDRESS(shmat(id, NULL, 0));
	if (at != FAILED) {
		say_resident("attached under mlockall", at, size);
		say_mappings("attached under mlockall", at, size);
		SAY(shmdt(at));
	}
	SAY(munlockall());
	SAY(shmctl(id, IPC_RMID, NULL));
	say_locked("at the end");
}

int main(void)
{
	for (size_t i = 0; i < COUNT(lockable); i++)
		size(lockable[i]);
	return 0;
}
