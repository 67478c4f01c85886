/* Ends of a process with much memory: exit statuses, handlers and their order, and unwritten stdio output. */
#include <pthread.h>

#include "say.h"

static char *at, *nowhere;
static size_t size_now;

static void memory(void)
{
	at = map(size_now, RW, ANON);
	fill(at, size_now, 1);
	char *shared = map(size_now, RW, SHARED | MAP_POPULATE);
	fill(shared, size_now, 2);
}

static void handler(int status, void *argument)
{
	printf("handler %s, status %d, memory wrong %zu\n", (char *)argument, status, wrong(at, size_now, 1));
}

static void simple(void)
{
	printf("simple handler, memory wrong %zu\n", wrong(at, size_now, 1));
}

static void by_exit(void)
{
	memory();
	on_exit(handler, "first");
	atexit(simple);
	on_exit(handler, "last");
	printf("not flushed");
	exit(7);
}

static void by_underscore_exit(void)
{
	memory();
	on_exit(handler, "never");
	printf("flushed explicitly\n");
	fflush(stdout);
	printf("never written");
	_exit(300);
}

static void by_quick_exit(void)
{
	memory();
	at_quick_exit(simple);
	fflush(stdout);
	quick_exit(9);
}

static void by_abort(void)
{
	memory();
	fflush(stdout);
	abort();
}

static void by_fault(void)
{
	memory();
	fflush(stdout);
	**(char *volatile *)&nowhere = 1;
}

static void *exits(void *unused)
{
	(void)unused;
	exit(11);
}

static void by_thread(void)
{
	pthread_t thread;
	memory();
	on_exit(handler, "of a thread");
	pthread_create(&thread, NULL, exits, NULL);
	for (;;)
		pause();
}

static void *stays(void *unused)
{
	(void)unused;
	usleep(20000);
	return NULL;
}

static void by_last_thread(void)
{
	pthread_t thread;
	memory();
	on_exit(handler, "after the last thread");
	pthread_create(&thread, NULL, stays, NULL);
	pthread_exit(NULL);
}

static void *touches(void *unused)
{
	(void)unused;
	for (size_t offset = 0; at; offset = (offset + PAGE) % size_now)
		at[offset + 8] = 1;
	return NULL;
}

/* Threads use the memory while the process ends. */
static void while_used(void)
{
	pthread_t thread;
	memory();
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, touches, NULL);
	usleep(2000);
	exit(13);
}

static void while_used_at_once(void)
{
	pthread_t thread;
	memory();
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, touches, NULL);
	usleep(2000);
	_exit(14);
}

static void in_handler_again(int status, void *argument)
{
	handler(status, argument);
	exit(21);
}

static void by_exit_in_handler(void)
{
	memory();
	on_exit(handler, "after the second exit");
	on_exit(in_handler_again, "that exits");
	exit(20);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_now = sizes[i];
		printf("-- %zu KiB\n", size_now / KB);
		in_child("exit", by_exit);
		in_child("_exit", by_underscore_exit);
		in_child("quick_exit", by_quick_exit);
		in_child("abort", by_abort);
		in_child("a fault", by_fault);
		in_child("a thread's exit", by_thread);
		in_child("the last thread's end", by_last_thread);
		in_child("while used", while_used);
		in_child("while used, _exit", while_used_at_once);
		in_child("exit in a handler", by_exit_in_handler);
	}
	return 0;
}
