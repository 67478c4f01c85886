/* Failing calls: errno, and the state afterwards. */
#include "common.h"

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
#define BOTH (PROT_READ | PROT_WRITE)

/* Continues as an ordinary user, who may lock this many bytes. */
static void become_nobody(size_t may_lock)
{
	struct rlimit limit = { may_lock, may_lock };
	if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
		perror("setrlimit");
	if (setgid(65534) != 0 || setuid(65534) != 0)
		perror("setuid");
	/* Makes /proc/self accessible to the new user. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void maps(void)
{
	void *there = anonymous(LARGE);
	int write_only = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	SHOW(mmap(NULL, LARGE, BOTH, MAP_POPULATE | MAP_ANONYMOUS, -1, 0));
	SHOW(mmap(NULL, LARGE, BOTH, ANONYMOUS | MAP_POPULATE, -1, 100));
	SHOW(mmap(NULL, LARGE, BOTH, MAP_PRIVATE | MAP_POPULATE, -1, 0));
	SHOW(mmap(NULL, LARGE, BOTH, MAP_PRIVATE | MAP_LOCKED, 250, 0));
	SHOW(mmap(NULL, LARGE, BOTH, MAP_SHARED | MAP_POPULATE, write_only, 0));
	SHOW(mmap(NULL, (size_t)1 << 60, BOTH, ANONYMOUS | MAP_POPULATE, -1, 0));
	SHOW(mmap(NULL, (size_t)1 << 60, BOTH, ANONYMOUS | MAP_LOCKED, -1, 0));
	SHOW(mmap(NULL, -(size_t)1, BOTH, ANONYMOUS | MAP_POPULATE, -1, 0));
	SHOW(mmap(there, LARGE, BOTH, ANONYMOUS | MAP_POPULATE | MAP_FIXED_NOREPLACE, -1, 0));
	SHOW(mmap(there, LARGE, BOTH, ANONYMOUS | MAP_LOCKED | MAP_FIXED_NOREPLACE, -1, 0));
	SHOW(mmap((char *)there + 1, LARGE, BOTH, ANONYMOUS | MAP_POPULATE | MAP_FIXED, -1, 0));
	SHOW(mmap(NULL, LARGE, BOTH, ANONYMOUS | MAP_POPULATE | MAP_HUGETLB | 63 << MAP_HUGE_SHIFT, -1, 0));
	SHOW(munmap((char *)there + 1, LARGE));
	SHOW(munmap(there, -PAGE));
	SHOW(munmap((void *)-PAGE, LARGE));
	SHOW(munmap(there, 0));
	show_mapping("still there", there);
	SHOW(munmap(there, LARGE));
	SHOW(munmap(there, LARGE));
}

static void locks(void)
{
	char *memory = anonymous(4 * LARGE);
	munmap(memory + 2 * LARGE, PAGE);
	SHOW(mlock(memory, 4 * LARGE));
	show_mapping("before the hole", memory);
	show_mapping("after it", memory + 2 * LARGE + PAGE);
	SHOW(munlock(memory, 2 * LARGE));
	char *forbidden = mmap(place(), LARGE, PROT_NONE, ANONYMOUS, -1, 0);
	SHOW(mlock(forbidden, LARGE));
	show_mapping("not to be touched", forbidden);
	mprotect(memory + LARGE, PAGE, PROT_NONE);
	SHOW(mlock(memory, 2 * LARGE));
	show_mapping("in part not to be touched", memory);
	SHOW(mlock((void *)-PAGE, LARGE));
	SHOW(mlock(memory, -PAGE));
	SHOW(mlock((void *)PAGE, LARGE));
	SHOW(mlock2(memory, LARGE, 2));
	SHOW(mlock2(memory, LARGE, 0x100));
	SHOW(mlock2((void *)PAGE, LARGE, 0));
	SHOW(mlockall(0));
	SHOW(mlockall(MCL_ONFAULT));
	SHOW(mlockall(MCL_CURRENT | 0x100));
	int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	SHOW(ftruncate(file, LARGE));
	char *beyond = mmap(place(), 2 * LARGE, PROT_READ, MAP_SHARED, file, 0);
	SHOW(mlock(beyond, 2 * LARGE));
	show_mapping("beyond its end", beyond);
	beyond = mmap(place(), 2 * LARGE, PROT_READ, MAP_SHARED | MAP_LOCKED, file, 0);
	show_mapping("locked beyond its end", beyond);
	printf("VmLck %ld kB\n", status_of("VmLck"));
}

static void limits(void)
{
	char *memory = anonymous(4 * LARGE);
	become_nobody(LARGE);
	SHOW(mlock(memory, 2 * LARGE));
	SHOW(mlock(memory, LARGE));
	SHOW(mlock(memory, LARGE));
	show_mapping("locked", memory);
	SHOW(mlock(memory + LARGE, LARGE));
	SHOW(mlock2(memory + LARGE, LARGE, 0));
	SHOW(mlockall(MCL_CURRENT));
	SHOW(mlockall(MCL_CURRENT | MCL_FUTURE));
	SHOW(mmap(NULL, 2 * LARGE, BOTH, ANONYMOUS | MAP_LOCKED, -1, 0));
	SHOW(munlock(memory, LARGE));
	SHOW(mmap(NULL, LARGE, BOTH, ANONYMOUS | MAP_LOCKED, -1, 0));
	SHOW(munlockall());
	SHOW(mlockall(MCL_FUTURE));
	SHOW(mmap(NULL, LARGE / 2, BOTH, ANONYMOUS, -1, 0));
	SHOW(mmap(NULL, LARGE, BOTH, ANONYMOUS, -1, 0));
	SHOW(mmap(NULL, LARGE, BOTH, ANONYMOUS | MAP_LOCKED, -1, 0));
	printf("VmLck %ld kB\n", status_of("VmLck"));
}

static void no_locks(void)
{
	char *memory = anonymous(LARGE);
	int id = new_segment(LARGE, 0);
	fflush(stdout);
	pid_t child = fork();
	if (child > 0) {
		waitpid(child, NULL, 0);
		SHOW(shmctl(id, IPC_RMID, NULL));
		return;
	}
	become_nobody(0);
	SHOW(mlock(memory, LARGE));
	SHOW(mlock2(memory, LARGE, 0));
	SHOW(mlockall(MCL_CURRENT));
	SHOW(mmap(NULL, LARGE, BOTH, ANONYMOUS | MAP_LOCKED, -1, 0));
	SHOW(shmctl(id, SHM_LOCK, NULL));
	SHOW(shmctl(id, IPC_RMID, NULL));
	SHOW(shmat(id, NULL, 0));
	id = new_segment(LARGE, 0);
	SHOW(shmctl(id, SHM_LOCK, NULL));
	SHOW(shmctl(id, IPC_RMID, NULL));
	exit(0);
}

static void segments(void)
{
	int id = new_segment(LARGE, 0), gone = new_segment(LARGE, 0);
	SHOW(shmctl(gone, IPC_RMID, NULL));
	SHOW(shmctl(gone, IPC_RMID, NULL));
	SHOW(shmctl(gone, SHM_LOCK, NULL));
	SHOW(shmat(gone, NULL, 0));
	SHOW(shmat(-1, NULL, 0));
	SHOW(shmctl(-1, IPC_RMID, NULL));
	SHOW(shmctl(-1, SHM_LOCK, NULL));
	SHOW(shmctl(id, 77, NULL));
	SHOW(shmctl(id, IPC_STAT, (void *)16));
	SHOW(shmctl(id, IPC_STAT | 0x100, (void *)16));
	SHOW(shmget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
	SHOW(shmget(IPC_PRIVATE, -(size_t)1, IPC_CREAT | 0600));
	SHOW(shmget(0x7654321, LARGE, 0));
	char *there = anonymous(2 * LARGE);
	SHOW(shmat(id, there, 0));
	SHOW(shmat(id, there + 1, 0));
	SHOW(shmat(id, (void *)-PAGE, SHM_REMAP));
	SHOW(shmat(id, NULL, SHM_REMAP));
	show_segment("not attached", id);
	SHOW(shmdt(there));
	SHOW(shmdt(NULL));
	char *memory = shmat(id, NULL, 0);
	memset(memory, 1, LARGE);
	SHOW(shmdt(memory + PAGE));
	SHOW(shmdt(memory + 1));
	printf("%d\n", memory[1]);
	SHOW(shmdt(memory));
	SHOW(shmdt(memory));
	SHOW(shmctl(id, IPC_RMID, NULL));
}

static void advice(void)
{
	char *memory = anonymous(2 * LARGE);
	mprotect(memory + LARGE + LARGE / 2, PAGE, PROT_NONE);
	SHOW(madvise(memory, 2 * LARGE, MADV_POPULATE_WRITE));
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(madvise(memory + 1, LARGE, MADV_POPULATE_WRITE));
	SHOW(madvise(memory, -PAGE, MADV_POPULATE_READ));
	munmap(memory + LARGE / 2, PAGE);
	SHOW(madvise(memory, LARGE, MADV_POPULATE_WRITE));
	SHOW(madvise((void *)PAGE, LARGE, MADV_POPULATE_READ));
	char *read_only = mmap(NULL, LARGE, PROT_READ, ANONYMOUS, -1, 0);
	SHOW(madvise(read_only, LARGE, MADV_POPULATE_WRITE));
	SHOW(madvise(read_only, LARGE, 12345));
	int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	SHOW(ftruncate(file, LARGE));
	char *beyond = mmap(NULL, 2 * LARGE, PROT_READ, MAP_SHARED, file, 0);
	SHOW(madvise(beyond, 2 * LARGE, MADV_POPULATE_READ));
}

/* With the maximum number of mappings, unmapping the middle of a mapping fails, and its contents
 * stay. */
static void crowded(void)
{
	char *memory = anonymous(4 * LARGE);
	fill(memory, 4 * LARGE, 5);
	char *many = mmap(place(), (size_t)1 << 30, PROT_NONE, ANONYMOUS, -1, 0);
	size_t parts = 0;
	while (mprotect(many + (2 * parts + 1) * PAGE, PAGE, PROT_READ) == 0)
		parts++;
	printf("%d, errno %s\n", parts > 1000, strerrorname_np(errno));
	SHOW(munmap(memory + LARGE, LARGE));
	printf("%d\n", filled(memory, 4 * LARGE, 5));
	/* A child still inherits it. */
	pid_t child = fork();
	if (child == 0)
		_exit(filled(memory, 4 * LARGE, 5) ? 7 : 8);
	int status;
	waitpid(child, &status, 0);
	printf("%x\n", status);
	SHOW(munmap(many, 1 << 20));
	SHOW(munmap(memory + LARGE, LARGE));
	SHOW(munmap(memory, 4 * LARGE));
}

/* Sealed memory (Linux 6.10) stays as it is. */
static void sealed(void)
{
	char *memory = anonymous(2 * LARGE);
	fill(memory, 2 * LARGE, 5);
	errno = 0;
	long status = syscall(462, memory + LARGE, PAGE, 0);
	printf("mseal %ld, errno %d\n", status, errno);
	if (status == 0)
		SHOW(munmap(memory, 2 * LARGE));
	printf("%d\n", filled(memory, 2 * LARGE, 5));
	show_mapping("before", memory);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "maps", maps }, { "locks", locks }, { "limits", limits }, { "no-locks", no_locks },
	{ "segments", segments }, { "advice", advice }, { "crowded", crowded }, { "sealed", sealed },
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
