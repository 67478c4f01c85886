/* Shared by the programs of this folder, which make calls and print the results. A transcript contains no addresses,
 * process ids or times, so two runs of a program print the same. Each program uses several sizes: small ones, which a
 * library passes to the kernel, and large ones, which it may share among helpers. */
#ifndef SAY_H
#define SAY_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define KB 1024UL
#define MB (1024 * KB)
/* The page size of the machine, which the compiler is told. */
#ifndef PAGE
#define PAGE 4096UL
#endif
#define FAILED ((void *)-1)
#define COUNT(array) (sizeof(array) / sizeof *(array))

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SHARED (MAP_SHARED | MAP_ANONYMOUS)

/* Sizes below, at and above thresholds of 64 KiB and of several MiB. */
static const size_t sizes[] __attribute__((unused)) = {PAGE, 60 * KB, 64 * KB, 1 * MB, 3 * MB + 5 * PAGE, 48 * MB};
/* Sizes for locked memory: an ordinary user may lock 8 MiB. */
static const size_t lockable[] __attribute__((unused)) = {PAGE, 64 * KB, 1 * MB, 5 * MB + 3 * PAGE};

/* Prints the text of a call and its result: a number, or -1 with the name of the error. */
#define SAY(call)                                                                                                     \
	__extension__({                                                                                                   \
		errno = 0;                                                                                                    \
		long said_ = (long)(call);                                                                                    \
		int error_ = errno;                                                                                           \
		say_result(#call, said_, error_);                                                                             \
		errno = error_;                                                                                               \
		said_;                                                                                                        \
	})

/* The same for a call that returns an address: prints "ok" or the error. */
#define SAY_ADDRESS(call)                                                                                             \
	__extension__({                                                                                                   \
		errno = 0;                                                                                                    \
		char *at_ = (call);                                                                                           \
		int error_ = errno;                                                                                           \
		printf("%s: %s\n", #call, at_ == FAILED ? strerrorname_np(error_) : "ok");                                    \
		errno = error_;                                                                                               \
		at_;                                                                                                          \
	})

__attribute__((unused)) static void say_result(const char *text, long result, int error)
{
	if (result == -1)
		printf("%s: -1 %s\n", text, strerrorname_np(error));
	else
		printf("%s: %ld\n", text, result);
}

/* Ends a program that cannot continue. */
__attribute__((unused, noreturn)) static void stop(const char *what)
{
	printf("cannot go on: %s: %s\n", what, strerrorname_np(errno));
	fflush(stdout);
	exit(2);
}

__attribute__((unused)) static char *map(size_t size, int protection, int flags)
{
	char *at = mmap(NULL, size, protection, flags, -1, 0);
	if (at == FAILED)
		stop("mmap");
	return at;
}

/* Prints resident pages as runs: "3x1 2x0" means three resident pages and two that are not; '-' is not mapped. */
__attribute__((unused)) static void say_resident(const char *what, char *at, size_t size)
{
	printf("%s resident:", what);
	size_t run = 0;
	char last = 0;
	for (size_t offset = 0; offset <= size; offset += PAGE) {
		char now = 0;
		if (offset < size) {
			unsigned char page;
			now = mincore(at + offset, PAGE, &page) ? '-' : (char)('0' + (page & 1));
		}
		if (now != last && run) {
			printf(" %zux%c", run, last);
			run = 0;
		}
		last = now;
		run++;
	}
	printf("\n");
}

/* Returns a number from /proc/self/status, in KiB if it has that unit. */
__attribute__((unused)) static long status_of(const char *key)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long number = -1;
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
			number = strtol(line + strlen(key) + 1, NULL, 10);
	if (file)
		fclose(file);
	return number;
}

__attribute__((unused)) static void say_locked(const char *what)
{
	printf("%s: VmLck %ld kB\n", what, status_of("VmLck"));
}

/* Prints the mappings within a range: offset and size in pages, protection, "lo" if locked. Equal adjacent mappings are
 * joined, because the kernel's division of a range into areas is unspecified. */
__attribute__((unused)) static void say_mappings(const char *what, char *at, size_t size)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512], mode[8] = "", now[16], kept[16] = "";
	uintptr_t begin = 0, end = 0, from = 0, to = 0, low = (uintptr_t)at, high = low + size;
	printf("%s mappings:", what);
	while (file && fgets(line, sizeof line, file)) {
		uintptr_t first, last;
		if (sscanf(line, "%lx-%lx %7s", &first, &last, mode) == 3) {
			begin = first < low ? low : first;
			end = last > high ? high : last;
		} else if (!strncmp(line, "VmFlags:", 8) && begin < end) {
			snprintf(now, sizeof now, "%s%s", mode, strstr(line, " lo") ? " lo" : "");
			if (to != begin || strcmp(now, kept)) {
				if (to > from)
					printf(" [%zu+%zu %s]", (from - low) / PAGE, (to - from) / PAGE, kept);
				from = begin;
				strcpy(kept, now);
			}
			to = end;
		}
	}
	if (to > from)
		printf(" [%zu+%zu %s]", (from - low) / PAGE, (to - from) / PAGE, kept);
	printf("\n");
	if (file)
		fclose(file);
}

/* Fills memory with numbers that differ for each word and seed, and counts the words that differ from them. */
__attribute__((unused)) static uint64_t mark_of(size_t offset, uint64_t seed)
{
	return (offset + 1) * 0x9e3779b97f4a7c15UL ^ seed;
}

__attribute__((unused)) static void fill(char *at, size_t size, uint64_t seed)
{
	for (size_t offset = 0; offset + 8 <= size; offset += 512)
		*(uint64_t *)(at + offset) = mark_of(offset, seed);
}

__attribute__((unused)) static size_t wrong(const char *at, size_t size, uint64_t seed)
{
	size_t count = 0;
	for (size_t offset = 0; offset + 8 <= size; offset += 512)
		count += *(const uint64_t *)(at + offset) != mark_of(offset, seed);
	return count;
}

/* Returns the number of words that are not zero. */
__attribute__((unused)) static size_t not_zero(const char *at, size_t size)
{
	size_t count = 0;
	for (size_t offset = 0; offset + 8 <= size; offset += 8)
		count += *(const uint64_t *)(at + offset) != 0;
	return count;
}

/* Runs a function in a child, and prints the child's exit status. */
__attribute__((unused)) static void in_child(const char *what, void (*function)(void))
{
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		stop("fork");
	if (child == 0) {
		function();
		fflush(stdout);
		_exit(0);
	}
	int status = 0;
	if (waitpid(child, &status, 0) != child)
		stop("waitpid");
	if (WIFSIGNALED(status))
		printf("%s: child killed by SIG%s\n", what, sigabbrev_np(WTERMSIG(status)));
	else
		printf("%s: child ended with %d\n", what, WEXITSTATUS(status));
}

/* Accesses memory in a child; returns 1, or the negated signal that the access raised. */
__attribute__((unused)) static int touch(volatile char *at, int write)
{
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		stop("fork");
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		if (write)
			*at = 1;
		else
			(void)*at;
		_exit(0);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : 1;
}

__attribute__((unused)) static void limit(int what, rlim_t soft)
{
	struct rlimit now;
	getrlimit(what, &now);
	now.rlim_cur = soft < now.rlim_max ? soft : now.rlim_max;
	if (setrlimit(what, &now))
		stop("setrlimit");
}

#endif
