// SPDX-License-Identifier: MIT OR Apache-2.0
/* Load in which nothing is wrong: tasks wait for each other all the time, and always go on. */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/rtmutex.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/workqueue.h>

#include "faults.h"

#define THREADS 6
#define SETTLE_MS 3000

static DEFINE_MUTEX(load_mutex);
static DECLARE_RWSEM(load_rwsem);
static DEFINE_RT_MUTEX(load_rt_mutex);
static struct semaphore load_semaphore = __SEMAPHORE_INITIALIZER(load_semaphore, 2);

struct job {
	struct work_struct work;
	struct completion done;
};

static void hold_mutex(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	mutex_lock(&load_mutex);
	usleep_range(1000, 2000);
	mutex_unlock(&load_mutex);
	complete(&job->done);
}

static void wait_for_work(void)
{
	struct job job;

	INIT_WORK_ONSTACK(&job.work, hold_mutex);
	init_completion(&job.done);
	schedule_work(&job.work);
	wait_for_completion(&job.done);
	flush_work(&job.work);
	destroy_work_on_stack(&job.work);
}

/* Locks are always taken in the same order. */
static int take_all(void *data)
{
	for (;;) {
		down_read(&load_rwsem);
		down(&load_semaphore);
		rt_mutex_lock(&load_rt_mutex);
		mutex_lock(&load_mutex);
		usleep_range(1000, 3000);
		mutex_unlock(&load_mutex);
		rt_mutex_unlock(&load_rt_mutex);
		up(&load_semaphore);
		up_read(&load_rwsem);
		wait_for_work();
		down_write(&load_rwsem);
		msleep(1);
		up_write(&load_rwsem);
		synchronize_rcu();
	}
	return 0;
}

static void locks(void)
{
	int i;

	for (i = 0; i < THREADS; i++)
		start(take_all, NULL, "load");
	msleep(SETTLE_MS);
}

/* A warning, after which the kernel goes on. */
static void warning(void)
{
	WARN(1, "faults: a warning\n");
}

/* Of each hundred tasks: one has a mutex and sleeps, ten wait for that, the others sleep in state S. */
#define GROUPS 1000
#define GROUP 100
#define WAITING 10

static struct mutex many_mutexes[GROUPS];

static int own_one(void *data)
{
	mutex_lock(data);
	sleep_forever();
	return 0;
}

static int wait_for_one(void *data)
{
	mutex_lock(data);
	return 0;
}

static int sleep_interruptibly(void *data)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule();
	}
	return 0;
}

/* A hundred thousand tasks. */
static void many(void)
{
	int i, j;

	for (i = 0; i < GROUPS; i++) {
		mutex_init(&many_mutexes[i]);
		start(own_one, &many_mutexes[i], "owner");
		while (!mutex_is_locked(&many_mutexes[i]))
			msleep(1);
		for (j = 1; j <= WAITING; j++)
			start(wait_for_one, &many_mutexes[i], "waiter");
		for (; j < GROUP; j++)
			start(sleep_interruptibly, NULL, "sleeper");
	}
}

const struct situation load_situations[] = {
	{ "many", many },
	{ "load-locks", locks },
	{ "load-warning", warning },
	{}
};
