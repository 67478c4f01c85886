// SPDX-License-Identifier: MIT OR Apache-2.0
/* Situations in which tasks wait for each other. */

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

/* Time for all threads to block. */
#define SETTLE_MS 500
#define READERS 100

static DEFINE_MUTEX(first_mutex);
static DEFINE_MUTEX(second_mutex);
static DECLARE_RWSEM(faults_rwsem);
static DEFINE_RT_MUTEX(first_rt_mutex);
static DEFINE_RT_MUTEX(second_rt_mutex);
static struct semaphore faults_semaphore = __SEMAPHORE_INITIALIZER(faults_semaphore, 1);
static DECLARE_COMPLETION(faults_completion);
static bool first_held, second_held;

static int first_then_second(void *data)
{
	mutex_lock(&first_mutex);
	first_held = true;
	wait_for(&second_held);
	mutex_lock(&second_mutex);
	return 0;
}

static int second_then_first(void *data)
{
	mutex_lock(&second_mutex);
	second_held = true;
	wait_for(&first_held);
	mutex_lock(&first_mutex);
	return 0;
}

/* Two mutexes, taken in both orders. */
static void abba(void)
{
	start(first_then_second, NULL, "ab");
	start(second_then_first, NULL, "ba");
	msleep(SETTLE_MS);
}

static int rt_first_then_second(void *data)
{
	rt_mutex_lock(&first_rt_mutex);
	first_held = true;
	wait_for(&second_held);
	rt_mutex_lock(&second_rt_mutex);
	return 0;
}

static int rt_second_then_first(void *data)
{
	rt_mutex_lock(&second_rt_mutex);
	second_held = true;
	wait_for(&first_held);
	rt_mutex_lock(&first_rt_mutex);
	return 0;
}

/* The same with rt_mutexes. */
static void rt_abba(void)
{
	start(rt_first_then_second, NULL, "ab");
	start(rt_second_then_first, NULL, "ba");
	msleep(SETTLE_MS);
}

static void take_first_mutex(struct work_struct *work)
{
	mutex_lock(&first_mutex);
	mutex_unlock(&first_mutex);
}

static DECLARE_WORK(mutex_work, take_first_mutex);

static int hold_mutex_write_rwsem(void *data)
{
	mutex_lock(&first_mutex);
	first_held = true;
	wait_for(&second_held);
	down_write(&faults_rwsem);
	return 0;
}

static int hold_rwsem_flush(void *data)
{
	down_write(&faults_rwsem);
	second_held = true;
	wait_for(&first_held);
	schedule_work(&mutex_work);
	flush_work(&mutex_work);
	return 0;
}

/* A thread that has a mutex waits for an rwsem; its owner, for a work item; the work item, for the mutex. */
static void three_way(void)
{
	start(hold_mutex_write_rwsem, NULL, "mutex");
	start(hold_rwsem_flush, NULL, "flush");
	msleep(SETTLE_MS);
}

static int take_and_exit(void *data)
{
	mutex_lock(&first_mutex);
	first_held = true;
	return 0;
}

static int wait_then_take(void *data)
{
	wait_for(&second_held);
	mutex_lock(&first_mutex);
	return 0;
}

/* The owner of a mutex has ended. The waiter exists before, so that it does not get the owner's task_struct. */
static void dead_owner(void)
{
	start(wait_then_take, NULL, "waiter");
	start(take_and_exit, NULL, "owner");
	wait_for(&first_held);
	msleep(SETTLE_MS);
	second_held = true;
	msleep(SETTLE_MS);
}

/* A task takes the same mutex twice. */
static void taken_twice(void)
{
	mutex_lock(&first_mutex);
	pr_info("faults: ready\n");
	mutex_lock(&first_mutex);
}

static int take_and_sleep(void *data)
{
	mutex_lock(&first_mutex);
	first_held = true;
	sleep_forever();
	return 0;
}

/* The owner of a mutex sleeps; others wait behind it, one of them with a second mutex. */
static void sleeping_owner(void)
{
	start(take_and_sleep, NULL, "owner");
	wait_for(&first_held);
	start(second_then_first, NULL, "chain");
	wait_for(&second_held);
	start(first_then_second, NULL, "waiter");
	msleep(SETTLE_MS);
}

static int read_and_sleep(void *data)
{
	down_read(&faults_rwsem);
	first_held = true;
	sleep_forever();
	return 0;
}

static int write_rwsem(void *data)
{
	down_write(&faults_rwsem);
	return 0;
}

static int read_rwsem(void *data)
{
	down_read(&faults_rwsem);
	return 0;
}

/* A reader of an rwsem sleeps; a writer waits for it, and 100 readers wait behind the writer. */
static void reader_sleeps(void)
{
	int i;

	start(read_and_sleep, NULL, "owner");
	wait_for(&first_held);
	start(write_rwsem, NULL, "writer");
	msleep(SETTLE_MS);
	for (i = 0; i < READERS; i++)
		start(read_rwsem, NULL, "reader");
	msleep(SETTLE_MS);
}

static int take_semaphore_and_sleep(void *data)
{
	down(&faults_semaphore);
	first_held = true;
	sleep_forever();
	return 0;
}

static int take_semaphore(void *data)
{
	down(&faults_semaphore);
	return 0;
}

/* A semaphore that is not released; a semaphore has no owner. */
static void semaphore(void)
{
	start(take_semaphore_and_sleep, NULL, "owner");
	wait_for(&first_held);
	start(take_semaphore, NULL, "waiter");
	msleep(SETTLE_MS);
}

static int wait_completion(void *data)
{
	wait_for_completion(&faults_completion);
	return 0;
}

/* A completion that nobody completes. */
static void completion(void)
{
	start(wait_completion, NULL, "waiter");
	msleep(SETTLE_MS);
}

static void sleep_in_work(struct work_struct *work)
{
	sleep_forever();
}

static void do_nothing(struct work_struct *work)
{
}

static DECLARE_WORK(stuck_work, sleep_in_work);
static DECLARE_WORK(next_work, do_nothing);

static int flush_next(void *data)
{
	flush_work(&next_work);
	return 0;
}

/* An ordered work queue whose item sleeps; another item waits behind it, and a thread for that. */
static void stuck_work_queue(void)
{
	struct workqueue_struct *queue = alloc_ordered_workqueue("faults_queue", 0);

	if (!queue)
		return;
	queue_work(queue, &stuck_work);
	queue_work(queue, &next_work);
	start(flush_next, NULL, "flusher");
	msleep(SETTLE_MS);
}

static int read_rcu_and_spin(void *data)
{
	rcu_read_lock();
	first_held = true;
	for (;;)
		cpu_relax();
	return 0;
}

static int wait_rcu(void *data)
{
	synchronize_rcu();
	return 0;
}

/* An RCU reader that never ends, and a thread that waits for the grace period. */
static void rcu_reader(void)
{
	start(read_rcu_and_spin, NULL, "reader");
	wait_for(&first_held);
	start(wait_rcu, NULL, "waiter");
	msleep(SETTLE_MS);
}

const struct situation wait_situations[] = {
	{ "abba", abba },
	{ "rt-abba", rt_abba },
	{ "three-way", three_way },
	{ "dead-owner", dead_owner },
	{ "taken-twice", taken_twice },
	{ "sleeping-owner", sleeping_owner },
	{ "reader-sleeps", reader_sleeps },
	{ "semaphore", semaphore },
	{ "completion", completion },
	{ "stuck-work-queue", stuck_work_queue },
	{ "rcu-reader", rcu_reader },
	{}
};
