/* Successful calls: their results and visible effects. */
#include "common.h"

static void show_locked(void)
{
	printf("VmLck %ld kB\n", status_of("VmLck"));
}

static void mmap_populate(void)
{
	char *memory;
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	show_mapping("private", memory);
	SHOW(memory = mmap(place(), LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	show_mapping("shared", memory);
	SHOW(memory = mmap64(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NORESERVE, -1, 0));
	show_mapping("without a reserve", memory);
	SHOW(mmap(memory, LARGE / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_FIXED, -1, 0) == memory);
	show_mapping("over another", memory);
}

static void mmap_plain(void)
{
	/* These calls populate nothing, so there is no work to share. */
	void *memory;
	SHOW(memory = mmap(place(), LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(memory = mmap(place(), LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NONBLOCK, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(memory = mmap(place(), LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_GROWSDOWN, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	SHOW(munmap(memory, LARGE));
	SHOW(memory = mmap(place(), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	SHOW(mlock(memory, PAGE));
	SHOW(munmap(memory, PAGE));
}

static void mmap_file(void)
{
	int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *memory, *block = malloc(LARGE);
	memset(block, 7, LARGE);
	SHOW_NUMBER(write(file, block, LARGE));
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, file, 0));
	memory[5] = 1;
	printf("%d %d, %zu pages\n", memory[5], memory[LARGE - 1], resident(memory, LARGE));
	show_mapping("private", memory);
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0));
	printf("%d\n", memory[5]);
	show_mapping("shared", memory);
	SHOW(munmap(memory, LARGE));
	/* Twice as long as the file: the rest cannot be populated, which is not an error. */
	SHOW(memory = mmap(place(), 2 * LARGE, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0));
	show_mapping("beyond its end", memory);
	SHOW(memory = mmap(place(), LARGE / 2, PROT_READ, MAP_SHARED | MAP_POPULATE, file, LARGE / 2));
	printf("%d\n", memory[0]);
	/* A device, whose memory may behave differently. */
	int zero = open("/dev/zero", O_RDWR);
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, zero, 0));
	printf("%d\n", memory[LARGE - 1]);
	SHOW(munmap(memory, LARGE));
}

static void mmap_locked(void)
{
	char *memory;
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
	printf("%zu pages\n", resident(memory, LARGE));
	show_mapping("locked", memory);
	show_locked();
	SHOW(munmap(memory, LARGE));
	show_locked();
}

static void locks(void)
{
	char *memory = anonymous(2 * LARGE);
	memory[LARGE] = 5;
	SHOW(mlock(memory + 100, LARGE));
	printf("%zu pages, %d\n", resident(memory, 2 * LARGE), memory[LARGE]);
	show_mapping("first part", memory);
	show_locked();
	SHOW(mlock(memory, 2 * LARGE));
	show_mapping("all", memory);
	SHOW(mlock(memory, 2 * LARGE));
	show_locked();
	SHOW(munlock(memory, 2 * LARGE));
	show_locked();
	SHOW(mlock2(memory, LARGE, MLOCK_ONFAULT));
	show_mapping("on demand", memory);
	SHOW(mlock2(memory, LARGE, 0));
	show_mapping("at once", memory);
	SHOW(munmap(memory, LARGE));
	char *shared = map(LARGE, MAP_SHARED | MAP_ANONYMOUS);
	SHOW(mlock(shared, LARGE));
	show_mapping("shared", shared);
	char *read_only = mmap(place(), LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(mlock(read_only, LARGE));
	show_mapping("to be read", read_only);
	show_locked();
}

static void lock_all(void)
{
	char *memory = anonymous(LARGE);
	SHOW(mlockall(MCL_CURRENT));
	show_mapping("there before", memory);
	char *next = anonymous(LARGE);
	show_mapping("there after", next);
	SHOW(mlockall(MCL_CURRENT | MCL_FUTURE));
	show_mapping("there after", next);
	char *future = anonymous(LARGE);
	show_mapping("locked by itself", future);
	future = mmap(place(), LARGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	show_mapping("to be read", future);
	future = map(LARGE, MAP_SHARED | MAP_ANONYMOUS);
	show_mapping("shared", future);
	pid_t child = fork();
	if (child == 0) {
		memory = anonymous(LARGE);
		printf("child: %zu pages, VmLck %ld kB\n", resident(memory, LARGE), status_of("VmLck"));
		exit(0);
	}
	waitpid(child, NULL, 0);
	SHOW(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
	future = anonymous(LARGE);
	show_mapping("locked on demand", future);
	SHOW(munlockall());
	future = anonymous(LARGE);
	show_mapping("not locked", future);
	show_locked();
	SHOW(mlockall(MCL_FUTURE));
	future = anonymous(LARGE);
	show_mapping("locked by itself again", future);
	SHOW(munlockall());
}

static void unmap(void)
{
	char *memory = anonymous(4 * LARGE);
	fill(memory, 4 * LARGE, 3);
	SHOW(munmap(memory + LARGE, LARGE));
	printf("%d %d\n", filled(memory, LARGE, 3), *(unsigned *)(memory + 2 * LARGE) == 3 + 2 * LARGE);
	show_mapping("before", memory);
	show_mapping("after", memory + 2 * LARGE);
	/* Unmaps over a hole. */
	SHOW(munmap(memory, 3 * LARGE));
	show_mapping("after", memory + 3 * LARGE);
	SHOW(munmap(memory, LARGE));
	int file = memfd_create("memory", 0);
	SHOW(ftruncate(file, LARGE));
	char *shared = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	fill(shared, LARGE, 9);
	SHOW(munmap(shared, LARGE));
	shared = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	printf("%d\n", filled(shared, LARGE, 9));
	pid_t child = fork();
	if (child == 0) {
		/* Unmapping in a child does not affect the parent. */
		SHOW(munmap(memory + 3 * LARGE, LARGE));
		SHOW(munmap(shared, LARGE));
		exit(0);
	}
	waitpid(child, NULL, 0);
	printf("%d\n", *(unsigned *)(memory + 3 * LARGE) == 3 + 3 * LARGE);
}

static void advise(void)
{
	char *memory = anonymous(2 * LARGE);
	SHOW(madvise(memory, LARGE, MADV_POPULATE_WRITE));
	printf("%zu pages\n", resident(memory, 2 * LARGE));
	SHOW(madvise(memory + LARGE, LARGE - 100, MADV_POPULATE_READ));
	printf("%zu pages\n", resident(memory, 2 * LARGE));
	SHOW(madvise(memory, 2 * LARGE, MADV_DONTNEED));
	printf("%zu pages\n", resident(memory, 2 * LARGE));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "mmap-populate", mmap_populate }, { "mmap-plain", mmap_plain }, { "mmap-file", mmap_file },
	{ "mmap-locked", mmap_locked }, { "locks", locks }, { "lock-all", lock_all },
	{ "unmap", unmap }, { "advise", advise },
};

int main(int count, char **arguments)
{
	for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, arguments[1]))
			continue;
		setvbuf(stdout, NULL, _IOLBF, 0);
		cases[i].run();
		printf("%d tasks, %d descriptors\n", tasks(), descriptors());
		return 0;
	}
	return 98;
}
