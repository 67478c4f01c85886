// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two processes and a futex with priority inheritance, whose owner the kernel knows. The owner takes it and calls the
 * module (/proc/faults), which does not come back; the other waits for it.
 */

#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t *futex;

/* Takes the futex as glibc does: by the owner's TID in the word, else by the kernel. */
static void take(void)
{
	uint32_t expected = 0;

	if (!__atomic_compare_exchange_n(futex, &expected, gettid(), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		syscall(SYS_futex, futex, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
}

static void owner(void)
{
	int file = open("/proc/faults", O_WRONLY);

	prctl(PR_SET_NAME, "futex-owner");
	take();
	(void)!write(file, "1", 1);
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
