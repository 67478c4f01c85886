/* Processes with restricted rights and resources. */
#include "common.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

static void use_memory(void)
{
	char *memory;
	SHOW(memory = mmap(place(), 4 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	if (memory != MAP_FAILED) {
		printf("%zu pages\n", resident(memory, 4 * LARGE));
		SHOW(munmap(memory, 4 * LARGE));
	}
	memory = mmap(place(), 4 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(mlock(memory, 4 * LARGE));
	printf("%zu pages\n", resident(memory, 4 * LARGE));
	SHOW(munmap(memory, 4 * LARGE));
	int id = new_segment(4 * LARGE, 0);
	SHOW(memory = shmat(id, NULL, 0));
	fill(memory, 4 * LARGE, 4);
	SHOW(shmdt(memory));
	show_segment("detached", id);
	SHOW(shmctl(id, IPC_RMID, NULL));
	SHOW(mlockall(MCL_CURRENT | MCL_FUTURE));
	SHOW(memory = mmap(place(), LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	if (memory != MAP_FAILED)
		printf("%zu pages\n", resident(memory, LARGE));
	SHOW(munlockall());
}

/* Makes system calls fail with EPERM. */
static void deny(const int *calls, size_t count)
{
	struct sock_filter filter[32] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	size_t length = 1;
	for (size_t i = 0; i < count; i++) {
		filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { (unsigned short)length, filter };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	SHOW(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

static void no_threads(void)
{
	const int calls[] = { SYS_clone, SYS_clone3, SYS_sched_setaffinity, SYS_unshare };
	deny(calls, 4);
	use_memory();
}

static void no_advice(void)
{
	const int calls[] = { SYS_madvise, SYS_mlock2, SYS_get_mempolicy, SYS_mincore };
	deny(calls, 4);
	use_memory();
}

static void no_files(void)
{
	const int calls[] = { SYS_open, SYS_openat, SYS_prctl, SYS_rt_sigprocmask, SYS_getcpu };
	int threads = tasks();
	deny(calls, 5);
	use_memory();
	printf("%d\n", threads);
}

static void few_processes(void)
{
	struct rlimit limit = { 1, 1 }, lock = { RLIM_INFINITY, RLIM_INFINITY };
	setrlimit(RLIMIT_MEMLOCK, &lock);
	setrlimit(RLIMIT_NPROC, &limit);
	SHOW(setgid(65533));
	SHOW(setuid(65533));
	prctl(PR_SET_DUMPABLE, 1);
	use_memory();
}

static void few_addresses(void)
{
	/* Limits the address space to little more than its current size. */
	char *memory = anonymous(16);
	munmap(memory, 16);
	struct rlimit limit;
	limit.rlim_cur = limit.rlim_max = (size_t)status_of("VmSize") * 1024 + 5 * LARGE;
	SHOW(setrlimit(RLIMIT_AS, &limit));
	use_memory();
}

static void few_descriptors(void)
{
	struct rlimit limit = { 0, 0 };
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	use_memory();
}

static void no_proc(void)
{
	mkdir("root", 0700);
	SHOW(chroot("root"));
	SHOW(chdir("/"));
	use_memory();
}

static void few_pages(void)
{
	/* Below a small stack is a guard page: a call that used much stack would crash the program. */
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 32 << 10);
	pthread_create(&thread, &attributes, (void *(*)(void *))use_memory, NULL);
	pthread_join(thread, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "no-threads", no_threads }, { "no-advice", no_advice }, { "no-files", no_files },
	{ "few-processes", few_processes }, { "few-addresses", few_addresses },
	{ "few-descriptors", few_descriptors }, { "no-proc", no_proc }, { "few-pages", few_pages },
};

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			return 0;
		}
	return 98;
}
