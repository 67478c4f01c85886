// SPDX-License-Identifier: MIT OR Apache-2.0
/* Situations of CPUs: loops, interrupts off, requests not answered. */

#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "faults.h"

#define SETTLE_MS 500

static DEFINE_SPINLOCK(faults_lock);
static bool held;

static int hold_with_interrupts_off(void *data)
{
	unsigned long flags;

	spin_lock_irqsave(&faults_lock, flags);
	held = true;
	for (;;)
		cpu_relax();
	return 0;
}

static struct task_struct *holder;

/*
 * Starts the holder on the second CPU, from a thread on the first one, which is not preempted any more: whatever else
 * ran there could wait for an answer of the second CPU, before this thread comes to its own wait.
 */
static void let_hold(void)
{
	pr_info("faults: ready\n");
	preempt_disable();
	wake_up_process(holder);
	while (!READ_ONCE(held))
		cpu_relax();
}

/* Makes the holder, and a thread on the first CPU that calls let_hold(). */
static void two_cpus(int (*run)(void *), const char *name)
{
	struct task_struct *other;

	holder = kthread_create(hold_with_interrupts_off, NULL, "faults-holder");
	other = kthread_create(run, NULL, "faults-%s", name);
	if (IS_ERR(holder) || IS_ERR(other))
		return;
	kthread_bind(holder, 1);
	kthread_bind(other, 0);
	wake_up_process(other);
}

static int take_lock(void *data)
{
	let_hold();
	spin_lock(&faults_lock);
	return 0;
}

/* A spinlock held by a CPU that loops with interrupts off; another CPU, with interrupts on, wants it. */
static void spinlock(void)
{
	two_cpus(take_lock, "spinner");
}

static int loop(void *data)
{
	preempt_disable();
	held = true;
	for (;;)
		cpu_relax();
	return 0;
}

/* A loop without preemption: a soft lockup. */
static void soft_lockup(void)
{
	start(loop, NULL, "looper");
	wait_for(&held);
	msleep(SETTLE_MS);
}

static void answer(void *data)
{
}

static int ask_other_cpu(void *data)
{
	let_hold();
	smp_call_function_single(1, answer, NULL, 1);
	return 0;
}

/* A CPU with interrupts off does not answer the request of another. */
static void unanswered_call(void)
{
	two_cpus(ask_other_cpu, "asker");
}

static int ask_other_cpus(void *data)
{
	let_hold();
	smp_call_function_many(cpu_online_mask, answer, NULL, true);
	return 0;
}

/* The same, of a CPU that asks all others. */
static void unanswered_calls(void)
{
	two_cpus(ask_other_cpus, "asker");
}

const struct situation cpu_situations[] = {
	{ "spinlock", spinlock },
	{ "soft-lockup", soft_lockup },
	{ "unanswered-call", unanswered_call },
	{ "unanswered-calls", unanswered_calls },
	{}
};
