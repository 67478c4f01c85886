/* Calls must not leave traces: threads, children, files, errno, signals, or inherited file locks. */
#include <dirent.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>

#include "say.h"

static volatile sig_atomic_t children_ended;

static void on_child(int signal)
{
	(void)signal;
	children_ended++;
}

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;
	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

static int files, threads;
static sigset_t mask;

static int differ(const sigset_t *one, const sigset_t *other)
{
	int count = 0;
	for (int number = 1; number < NSIG; number++)
		count += sigismember(one, number) != sigismember(other, number);
	return count;
}

static void check(const char *what)
{
	sigset_t now, pending;
	int error = errno, status;
	printf("%s: errno %d", what, error);
	printf(", threads %+ld", status_of("Threads") - threads);
	printf(", files %+d", entries("/proc/self/fd") - files);
	errno = 0;
	pid_t child = waitpid(-1, &status, WNOHANG | __WALL);
	printf(", wait %s", child < 0 ? strerrorname_np(errno) : "for an unexpected child");
	sigprocmask(SIG_SETMASK, NULL, &now);
	sigpending(&pending);
	printf(", signals %s and %s, SIGCHLD %d\n", differ(&now, &mask) ? "changed" : "as before",
		   sigisemptyset(&pending) ? "none" : "some", children_ended);
	errno = 4711;
}

static void calls(size_t size)
{
	errno = 4711;
	check("at first");
	char *at = mmap(NULL, size, RW, ANON | MAP_POPULATE, -1, 0);
	check("mmap of MAP_POPULATE");
	mlock(at, size > 6 * MB ? 6 * MB : size);
	check("mlock");
	munlock(at, size);
	check("munlock");
	munmap(at, size);
	check("munmap");
	int id = shmget(IPC_PRIVATE, size, 0600);
	check("shmget");
	at = shmat(id, NULL, 0);
	check("shmat");
	fill(at, size, 1);
	shmctl(id, IPC_RMID, NULL);
	check("IPC_RMID");
	shmdt(at);
	check("shmdt");
	int file = memfd_create("file", 0);
	ftruncate(file, size);
	at = mmap(NULL, size, RW, MAP_SHARED | MAP_POPULATE, file, 0);
	fill(at, size, 1);
	close(file);
	munmap(at, size);
	check("munmap of a memfd");
}

/* A helper process with a copy of the file table would keep these files open. */
static void files_of_others(size_t size)
{
	int ends[2], locked = open("lock", O_RDWR | O_CREAT, 0600), other = open("lock", O_RDWR);
	for (int round = 0; round < 6; round++) {
		if (pipe(ends) || flock(locked, LOCK_EX))
			stop("pipe");
		int id = shmget(IPC_PRIVATE, size, 0600);
		char *at = shmat(id, NULL, 0);
		fill(at, size, 1);
		char *private = map(size, RW, ANON | MAP_POPULATE);
		shmctl(id, IPC_RMID, NULL);
		shmdt(at);
		munmap(private, size);
		close(ends[1]);
		struct pollfd end = {.fd = ends[0], .events = POLLIN};
		SAY(poll(&end, 1, 0));
		SAY(end.revents == POLLHUP);
		close(ends[0]);
		close(locked);
		SAY(flock(other, LOCK_EX | LOCK_NB));
		close(other);
		locked = open("lock", O_RDWR);
		other = open("lock", O_RDWR);
	}
	close(locked);
	close(other);
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	status_of("Threads");
	files = entries("/proc/self/fd");
	threads = status_of("Threads");
	for (int reaper = 0; reaper < 2; reaper++) {
		SAY(prctl(PR_SET_CHILD_SUBREAPER, reaper, 0, 0, 0));
		for (size_t i = 0; i < COUNT(sizes); i++) {
			printf("-- %zu KiB\n", sizes[i] / KB);
			calls(sizes[i]);
		}
		/* Effects that end later must not be noticeable either. */
		usleep(300000);
		check("a while later");
		files_of_others(48 * MB);
	}
	return 0;
}
