// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two processes and a futex with priority inheritance, whose owner the kernel knows. The owner takes it and calls the
 * module (/proc/faults), which does not come back; the other waits for it. Before, the owner prints what it has mapped
 * and the functions that it is in, as the kernel and glibc tell them.
 */

#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#define MAX_CALLS 32

static uint32_t *futex;
/* The program's own header, as the linker calls it. */
extern const char __ehdr_start[];

/* Takes the futex as glibc does: by the owner's TID in the word, else by the kernel. */
static void take(void)
{
	uint32_t expected = 0;

	if (!__atomic_compare_exchange_n(futex, &expected, gettid(), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		syscall(SYS_futex, futex, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
}

static void print_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[256];

	while (maps && fgets(line, sizeof(line), maps))
		printf("mapped: %s", line);
	if (maps)
		fclose(maps);
}

/* Prints the functions that it is in, and calls the module from there. */
static __attribute__((noinline)) void call_driver(int depth)
{
	void *calls[MAX_CALLS];
	int file, count, i;

	if (depth > 0) {
		call_driver(depth - 1);
		/* So that this is no jump. */
		__asm__ volatile("");
		return;
	}
	/* A process made by fork has no page of its program before it touches it. */
	(void)*(const volatile char *)__ehdr_start;
	file = open("/proc/faults", O_WRONLY);
	count = backtrace(calls, MAX_CALLS);
	for (i = 1; i < count; i++)
		printf("called from: %p\n", calls[i]);
	print_mappings();
	fflush(stdout);
	/* So that the module's messages are behind the lines. */
	tcdrain(STDOUT_FILENO);
	if (file >= 0)
		(void)!write(file, "1", 1);
}

static void owner(void)
{
	prctl(PR_SET_NAME, "futex-owner");
	take();
	call_driver(5);
}

static void waiter(void)
{
	prctl(PR_SET_NAME, "futex-waiter");
	sleep(1);
	take();
}

int main(void)
{
	futex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (futex == MAP_FAILED)
		return 1;
	if (fork() == 0) {
		owner();
		return 0;
	}
	waiter();
	return 0;
}
