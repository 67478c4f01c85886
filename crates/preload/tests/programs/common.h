/* Shared by the test programs. Their output is comparable: it contains no addresses and no times. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define UNUSED __attribute__((unused))

/* A size above the threshold of 64 KiB. */
#define LARGE ((size_t)1 << 20)

/* The kernel's page size: 64 KiB on some machines. */
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* The value of errno before a call. A successful call must not change it. */
#define BEFORE 12345

/* Prints the result of a call, and errno. */
#define SHOW(call)                                                                             \
	do {                                                                                   \
		errno = BEFORE;                                                                \
		long result_ = (long)(call);                                                   \
		int error_ = errno;                                                            \
		const char *text_ = error_ == BEFORE ? "as before" : strerrorname_np(error_);  \
		printf("%s: %s, errno %s\n", #call, result_ == -1 ? "-1" : "done", text_);     \
	} while (0)

/* The same for a call whose result is a number. */
#define SHOW_NUMBER(number) printf("%s: %ld\n", #number, (long)(number))

/* Returns an address far from all other mappings, so that no two of them are merged. */
UNUSED static void *place(void)
{
	static uintptr_t next = 0x200000000000;
	next += (uintptr_t)64 << 20;
	return (void *)next;
}

UNUSED static void *map(size_t length, int flags)
{
	void *memory = mmap(place(), length, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(99);
	}
	return memory;
}

UNUSED static void *anonymous(size_t length)
{
	return map(length, MAP_PRIVATE | MAP_ANONYMOUS);
}

/* Returns a number of /proc/self/status, such as VmLck (in KiB). */
UNUSED static long status_of(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long number = -1;
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, name, strlen(name)))
			number = atol(line + strlen(name) + 1);
	if (file)
		fclose(file);
	return number;
}

/* Prints the entry of /proc/self/smaps for the mapping that contains an address. */
UNUSED static void show_mapping(const char *name, void *memory)
{
	static const char *const wanted[] = { "Size:", "Rss:", "Locked:", "AnonHugePages:", "VmFlags:" };
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	int within = 0;
	while (file && fgets(line, sizeof line, file)) {
		unsigned long start, end;
		char flags[8];
		if (sscanf(line, "%lx-%lx %7s", &start, &end, flags) == 3) {
			within = (unsigned long)memory >= start && (unsigned long)memory < end;
			if (within)
				printf("%s: %s %s\n", name, flags, start == (unsigned long)memory ? "begins" : "within");
		}
		for (size_t i = 0; within && i < sizeof wanted / sizeof *wanted; i++)
			if (!strncmp(line, wanted[i], strlen(wanted[i])))
				printf("  %s", line);
	}
	if (file)
		fclose(file);
}

/* Returns the number of resident pages of a region. */
UNUSED static size_t resident(void *memory, size_t length)
{
	size_t pages = length / PAGE, count = 0;
	unsigned char *there = malloc(pages);
	if (mincore(memory, length, there) != 0)
		count = (size_t)-1;
	else
		for (size_t i = 0; i < pages; i++)
			count += there[i] & 1;
	free(there);
	return count;
}

/* True if a thread of this process has begun to end (PF_EXITING of include/linux/sched.h). Such a
 * thread stays in /proc/self/task for a moment after pthread_join has returned. */
UNUSED static int is_ending(const char *thread)
{
	char path[64], line[512], *fields;
	unsigned long flags = 0x4;
	snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
	FILE *file = fopen(path, "r");
	/* After the name: state, parent, group, session, terminal, foreground group, flags. */
	if (file && fgets(line, sizeof line, file) && (fields = strrchr(line, ')')))
		sscanf(fields, ") %*c %*d %*d %*d %*d %*d %lu", &flags);
	if (file)
		fclose(file);
	return (flags & 0x4) != 0;
}

/* Returns the number of threads of this process that are not ending. */
UNUSED static int tasks(void)
{
	DIR *folder = opendir("/proc/self/task");
	int count = 0;
	struct dirent *entry;
	while (folder && (entry = readdir(folder)))
		count += entry->d_name[0] != '.' && !is_ending(entry->d_name);
	if (folder)
		closedir(folder);
	return count;
}

UNUSED static void count_up(int *count)
{
	__atomic_add_fetch(count, 1, __ATOMIC_RELEASE);
}

/* Waits until other threads have counted up to a number. */
UNUSED static void wait_for_count(int *count, int number)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < number)
		sched_yield();
}

/* Returns the number of open descriptors. */
UNUSED static int descriptors(void)
{
	int count = 0;
	for (int i = 0; i < 256; i++)
		count += fcntl(i, F_GETFD) != -1;
	return count;
}

UNUSED static void fill(void *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i += 512)
		*(unsigned *)((char *)memory + i) = seed + (unsigned)i;
}

UNUSED static int filled(void *memory, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i += 512)
		if (*(unsigned *)((char *)memory + i) != seed + (unsigned)i)
			return 0;
	return 1;
}

UNUSED static int new_segment(size_t length, int flags)
{
	int id = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600 | flags);
	if (id == -1)
		perror("shmget");
	return id;
}

UNUSED static void show_segment(const char *name, int id)
{
	struct shmid_ds segment;
	if (shmctl(id, IPC_STAT, &segment) != 0)
		printf("%s: %s\n", name, strerrorname_np(errno));
	else
		printf("%s: %lu bytes, %lu attached, mode %o, ours %d\n", name,
		       (unsigned long)segment.shm_segsz, (unsigned long)segment.shm_nattch,
		       segment.shm_perm.mode, segment.shm_cpid == getpid());
}
