/* System V segments: their visible state at each step. */
#include "common.h"

static void life(int flags)
{
	int id = new_segment(LARGE, flags);
	if (id == -1)
		return;
	show_segment("made", id);
	char *memory = shmat(id, NULL, 0);
	show_segment("attached", id);
	fill(memory, LARGE, 1);
	char *again = shmat(id, NULL, SHM_RDONLY);
	printf("%d\n", filled(again, LARGE, 1));
	show_mapping("to be read", again);
	show_segment("attached twice", id);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		show_segment("in a child", id);
		SHOW(shmdt(memory));
		SHOW(shmdt(again));
		show_segment("detached by a child", id);
		exit(0);
	}
	waitpid(child, NULL, 0);
	show_segment("after the child", id);
	SHOW(shmctl(id, SHM_LOCK, NULL));
	show_segment("locked", id);
	SHOW(shmctl(id, SHM_UNLOCK, NULL));
	SHOW(shmdt(again));
	show_segment("detached once", id);
	printf("%d\n", filled(memory, LARGE, 1));
	SHOW(shmctl(id, IPC_RMID, NULL));
	show_segment("marked", id);
	SHOW(shmat(id, NULL, 0));
	show_segment("attached though marked", id);
	SHOW(shmdt(memory));
	show_segment("detached once more", id);
}

static void ordinary(void)
{
	life(0);
}

static void without_reserve(void)
{
	life(SHM_NORESERVE);
}

static void huge(void)
{
	life(SHM_HUGETLB);
}

static void places(void)
{
	int id = new_segment(LARGE, 0);
	char *there = mmap(place(), 2 * LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(shmat(id, there, SHM_REMAP) == there);
	show_mapping("over another", there);
	fill(there, LARGE, 2);
	SHOW(shmat(id, there + LARGE + 100, SHM_REMAP | SHM_RND) == there + LARGE);
	printf("%d\n", filled(there + LARGE, LARGE, 2));
	SHOW(shmdt(there));
	SHOW(shmdt(there + LARGE));
	SHOW(munmap(there, LARGE));
	SHOW(shmat(id, there, SHM_EXEC) == there);
	show_mapping("to be run", there);
	SHOW(shmdt(there));
	SHOW(shmctl(id, IPC_RMID, NULL));
}

/* Mappings that a program places over an attachment do not belong to the segment. */
static void parts(void)
{
	int id = new_segment(4 * LARGE, 0);
	char *memory = shmat(id, NULL, 0);
	fill(memory, 4 * LARGE, 2);
	mmap(memory + LARGE, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	fill(memory + LARGE, LARGE, 3);
	show_segment("in two parts", id);
	SHOW(munmap(memory, PAGE));
	show_segment("without its begin", id);
	SHOW(shmdt(memory));
	show_segment("detached by its begin", id);
	printf("%d\n", filled(memory + LARGE, LARGE, 3));
	munmap(memory, 4 * LARGE);
	SHOW(shmdt(memory));
	/* Another segment at the same address. */
	int other = new_segment(LARGE, 0);
	SHOW(shmat(id, memory, 0) == memory);
	SHOW(munmap(memory, 4 * LARGE));
	SHOW(shmat(other, memory, 0) == memory);
	fill(memory, LARGE, 4);
	SHOW(shmdt(memory));
	show_segment("other", other);
	SHOW(shmctl(id, IPC_RMID, NULL));
	SHOW(shmctl(other, IPC_RMID, NULL));
}

/* If parts of an attachment are locked, each locked and unlocked part counts as an attachment. */
static void locked_in_parts(void)
{
	int id = new_segment(4 * LARGE, 0);
	char *memory = shmat(id, NULL, 0);
	const size_t begins[] = { 0, 1, 2, 0 }, ends[] = { 1, 2, 3, 4 };
	for (int i = 0; i < 4; i++) {
		SHOW(mlock(memory + begins[i] * LARGE, (ends[i] - begins[i]) * LARGE));
		show_segment("locked in parts", id);
	}
	SHOW(munlock(memory + LARGE, LARGE));
	show_segment("not all of it locked", id);
	SHOW(shmdt(memory));
	SHOW(shmctl(id, IPC_RMID, NULL));
}

/* A key is free as soon as its segment is removed. */
static void keys(void)
{
	key_t key = 0x42490000 + getpid() % 0xffff;
	for (int i = 0; i < 3; i++) {
		int id = shmget(key, LARGE, IPC_CREAT | IPC_EXCL | 0600);
		SHOW_NUMBER(id != -1);
		SHOW(shmget(key, LARGE, IPC_CREAT | IPC_EXCL | 0600));
		SHOW_NUMBER(shmget(key, LARGE, IPC_CREAT | 0600) == id);
		SHOW_NUMBER(shmget(key, 0, 0) == id);
		char *memory = shmat(id, NULL, 0);
		fill(memory, LARGE, 6);
		SHOW(shmdt(memory));
		show_segment("detached", id);
		SHOW(shmctl(id, IPC_RMID, NULL));
		SHOW(shmget(key, LARGE, 0));
	}
}

/* Another user's segment is not populated. */
static void foreign(void)
{
	int pipes[2];
	if (pipe(pipes) != 0)
		return;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		int id = new_segment(LARGE, 0);
		_exit(write(pipes[1], &id, sizeof id) != sizeof id);
	}
	waitpid(child, NULL, 0);
	int id;
	if (read(pipes[0], &id, sizeof id) != sizeof id)
		return;
	char *memory = shmat(id, NULL, 0);
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(shmdt(memory));
	SHOW(shmctl(id, IPC_RMID, NULL));
}

/* Prints the number of resident pages of new segments, which depends on the policy. */
static void created(void)
{
	const int flags[] = { 0, SHM_NORESERVE };
	for (int i = 0; i < 2; i++) {
		int id = new_segment(LARGE, flags[i]);
		char *memory = shmat(id, NULL, 0);
		struct shmid_ds segment;
		shmctl(id, IPC_STAT, &segment);
		printf("%zu pages, mode %o\n", resident(memory, LARGE), segment.shm_perm.mode);
		shmdt(memory);
		memory = shmat(id, NULL, SHM_RDONLY);
		shmctl(id, SHM_LOCK, NULL);
		printf("%zu pages\n", resident(memory, LARGE));
		shmctl(id, IPC_RMID, NULL);
	}
	/* First attached read-only. */
	int id = new_segment(LARGE, 0);
	char *memory = shmat(id, NULL, SHM_RDONLY);
	printf("%zu pages\n", resident(memory, LARGE));
	shmctl(id, IPC_RMID, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "ordinary", ordinary }, { "without-reserve", without_reserve }, { "huge", huge },
	{ "places", places }, { "parts", parts }, { "locked-in-parts", locked_in_parts },
	{ "keys", keys }, { "foreign", foreign }, { "created", created },
};

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			printf("%d tasks, %d descriptors\n", tasks(), descriptors());
			return 0;
		}
	return 98;
}
