/* No more processes, no more files, little memory, denied system calls: the plain calls work without them. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "say.h"

static void all(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_t size = sizes[i], least = size < 4 * MB ? size : 4 * MB;
		char *at = SAY_ADDRESS(mmap(NULL, size, RW, ANON | MAP_POPULATE, -1, 0));
		if (at != FAILED) {
			SAY(not_zero(at, size));
			SAY(mlock(at, least));
			say_locked("locked");
			SAY(mlock2(at, least, MLOCK_ONFAULT));
			SAY(munlock(at, least));
			SAY(munmap(at, size));
			say_mappings("unmapped", at, size);
		}
		int id = shmget(IPC_PRIVATE, size, 0600);
		at = SAY_ADDRESS(shmat(id, NULL, 0));
		if (at != FAILED) {
			fill(at, size, 1);
			SAY(shmctl(id, SHM_LOCK, NULL) && size < 4 * MB);
			SAY(shmctl(id, IPC_RMID, NULL));
			SAY(wrong(at, size, 1));
			SAY(shmdt(at));
		}
	}
}

static void deny(const long *calls, size_t count, unsigned action)
{
	struct sock_filter filter[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	size_t length = 1;
	for (size_t i = 0; i < count; i++) {
		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		stop("seccomp");
}

static const long threads[] = {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork};
static const long advice[] = {SYS_madvise, SYS_process_madvise};
static const long looking[] = {SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_get_mempolicy, SYS_getcpu,
							   SYS_sysinfo, SYS_prctl, SYS_futex, SYS_sched_yield, SYS_membarrier};

static void no_threads(void)
{
	deny(threads, COUNT(threads), SECCOMP_RET_ERRNO | EPERM);
	all();
}

static void no_threads_known(void)
{
	deny(threads, COUNT(threads), SECCOMP_RET_ERRNO | ENOSYS);
	all();
}

static void no_advice(void)
{
	deny(advice, COUNT(advice), SECCOMP_RET_ERRNO | EPERM);
	all();
}

static void no_advice_known(void)
{
	deny(advice, COUNT(advice), SECCOMP_RET_ERRNO | ENOSYS);
	all();
}

static void no_looking(void)
{
	deny(looking, COUNT(looking), SECCOMP_RET_ERRNO | EPERM);
	all();
}

static void no_processes(void)
{
	limit(RLIMIT_NPROC, 0);
	all();
}

static void no_files(void)
{
	FILE *warm = fopen("/proc/self/status", "r");
	fclose(warm);
	struct rlimit none = {3, 3};
	setrlimit(RLIMIT_NOFILE, &none);
	for (int i = 3; i < 64; i++)
		close(i);
	all();
}

static void small_stack(void)
{
	limit(RLIMIT_STACK, 64 * KB);
	all();
}

static void little_space(void)
{
	limit(RLIMIT_AS, (status_of("VmSize") + 50 * 1024) * KB);
	all();
}

int main(void)
{
	in_child("no threads", no_threads);
	in_child("threads unknown", no_threads_known);
	in_child("no advice", no_advice);
	in_child("advice unknown", no_advice_known);
	in_child("no looking around", no_looking);
	in_child("no processes", no_processes);
	in_child("no files", no_files);
	in_child("a small stack", small_stack);
	in_child("little address space", little_space);
	return 0;
}
