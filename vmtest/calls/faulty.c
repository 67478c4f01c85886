/* A library with one fault, FAULT: vmtest/suites --selftest tests that the suites detect each fault. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
	if (FAULT == 1)
		flags &= ~MAP_POPULATE;
	if (FAULT == 2)
		flags &= ~MAP_LOCKED;
	if (FAULT == 3 && (flags & MAP_FIXED_NOREPLACE))
		flags = (flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED;
	return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

int munmap(void *address, size_t length)
{
	if (FAULT == 4 && length > PAGE)
		length -= PAGE;
	if (FAULT == 5 && length > PAGE && syscall(SYS_fork) == 0)
		syscall(SYS_exit, 0);
	int result = (int)syscall(SYS_munmap, address, length);
	if (FAULT == 6)
		errno = ENOMEM;
	return result;
}

int mlock(const void *address, size_t length)
{
	if (FAULT == 7)
		return 0;
	int result = (int)syscall(SYS_mlock, address, length);
	if (FAULT == 8 && result)
		syscall(SYS_munlock, address, length);
	if (FAULT == 9 && result && errno == ENOMEM)
		errno = EAGAIN;
	return result;
}

void *shmat(int id, const void *address, int flags)
{
	if (FAULT == 10)
		syscall(SYS_shmat, id, NULL, SHM_RDONLY);
	if (FAULT == 11)
		flags &= ~SHM_RDONLY;
	return (void *)syscall(SYS_shmat, id, address, flags);
}

int shmdt(const void *address)
{
	return FAULT == 12 ? 0 : (int)syscall(SYS_shmdt, address);
}

int shmctl(int id, int command, struct shmid_ds *about)
{
	if (FAULT == 13 && command == SHM_LOCK)
		return 0;
	if (FAULT == 14 && command == IPC_RMID && syscall(SYS_fork) == 0) {
		usleep(200000);
		syscall(SYS_exit, 0);
	}
	return (int)syscall(SYS_shmctl, id, command, about);
}

void _exit(int status)
{
	if (FAULT == 15)
		status++;
	for (;;)
		syscall(SYS_exit_group, status);
}
