/* Signals that arrive during calls: handlers run in the calling thread, and results of calls are the same as without
 * signals. */
#include <pthread.h>
#include <sys/time.h>

#include "say.h"

static pthread_t main_thread;
static volatile sig_atomic_t ticks, elsewhere, over;

/* A single shot instead of a periodic timer: if a handler took longer than the interval on a busy machine, the program
 * would make no progress. */
static void tick_soon(void)
{
	struct itimerval soon = {{0, 0}, {0, 500}};
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void on_tick(int signal)
{
	int error = errno;
	(void)signal;
	ticks++;
	elsewhere += !pthread_equal(pthread_self(), main_thread);
	if (!over)
		tick_soon();
	errno = error;
}

static void on_tick_with_memory(int signal)
{
	int error = errno;
	char *at = mmap(NULL, 1 * MB, RW, ANON | MAP_POPULATE, -1, 0);
	elsewhere += at == FAILED || not_zero(at, 1 * MB) || munmap(at, 1 * MB);
	on_tick(signal);
	errno = error;
}

static void rounds(int flags, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	struct itimerval never = {{0, 0}, {0, 0}};
	size_t bad = 0;
	sigaction(SIGALRM, &action, NULL);
	ticks = over = 0;
	tick_soon();
	for (int round = 0; round < 16; round++) {
		size_t size = round % 12 ? sizes[round % (COUNT(sizes) - 1)] : 24 * MB, least = size < 5 * MB ? size : 5 * MB;
		char *at = mmap(NULL, size, RW, ANON | (round & 1 ? MAP_POPULATE : 0), -1, 0);
		bad += at == FAILED;
		bad += mlock(at, least) != 0;
		fill(at, least, round);
		bad += wrong(at, least, round) + not_zero(at + least, size - least);
		bad += munmap(at, size) != 0;
		int id = shmget(IPC_PRIVATE, size, 0600);
		at = shmat(id, NULL, 0);
		bad += at == FAILED;
		fill(at, size, round);
		bad += shmctl(id, SHM_LOCK, NULL) != 0 && size < 8 * MB;
		bad += shmctl(id, IPC_RMID, NULL) != 0;
		bad += wrong(at, size, round);
		bad += shmdt(at) != 0;
	}
	over = 1;
	setitimer(ITIMER_REAL, &never, NULL);
	SAY(ticks >= 3);
	SAY(bad);
	SAY(elsewhere);
	say_locked("at the end");
	SAY(status_of("Threads"));
}

/* The handler maps the memory on a fault; the interrupted access is then repeated. */
static void makes_on_fault(int signal, siginfo_t *about, void *context)
{
	(void)signal, (void)context;
	char *page = (char *)((uintptr_t)about->si_addr & ~(MB - 1));
	if (mmap(page, MB, RW, ANON | MAP_FIXED | MAP_POPULATE, -1, 0) != page)
		_exit(9);
}

static void faults(void)
{
	struct sigaction action = {.sa_sigaction = makes_on_fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &action, NULL);
	char *room = map(34 * MB, PROT_NONE, ANON);
	room = (char *)(((uintptr_t)room + MB - 1) & ~(MB - 1));
	fill(room, 32 * MB, 1);
	SAY(wrong(room, 32 * MB, 1));
}

/* With all signals blocked, none is lost. */
static void blocked(void)
{
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	raise(SIGUSR1);
	char *at = map(48 * MB, RW, ANON | MAP_POPULATE);
	SAY(munmap(at, 48 * MB));
	sigset_t pending;
	sigpending(&pending);
	SAY(sigismember(&pending, SIGUSR1));
	SAY(sigismember(&pending, SIGUSR2));
	sigprocmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
	main_thread = pthread_self();
	rounds(SA_RESTART, on_tick);
	rounds(0, on_tick);
	rounds(SA_RESTART, on_tick_with_memory);
	in_child("memory made on a fault", faults);
	in_child("blocked", blocked);
	return 0;
}
