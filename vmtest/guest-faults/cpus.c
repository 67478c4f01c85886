// SPDX-License-Identifier: MIT OR Apache-2.0
/* Situations of CPUs: loops, interrupts off, requests not answered. */

#include <linux/cpumask.h>
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

/* The timer of a sleep is on the CPU that it began on: not on that which takes no interrupts. */
static void stay_on_first_cpu(void)
{
	set_cpus_allowed_ptr(current, cpumask_of(0));
}

static int take_lock(void *data)
{
	pr_info("faults: ready\n");
	spin_lock(&faults_lock);
	return 0;
}

/* A spinlock held by a CPU that loops with interrupts off; another CPU, with interrupts on, wants it. */
static void spinlock(void)
{
	struct task_struct *holder = kthread_create(hold_with_interrupts_off, NULL, "faults-holder");
	struct task_struct *waiter = kthread_create(take_lock, NULL, "faults-spinner");

	if (IS_ERR(holder) || IS_ERR(waiter))
		return;
	stay_on_first_cpu();
	kthread_bind(holder, 1);
	kthread_bind(waiter, 0);
	wake_up_process(holder);
	wait_for(&held);
	wake_up_process(waiter);
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

static void do_nothing(void *data)
{
}

static int ask_other_cpu(void *data)
{
	smp_call_function_single(1, do_nothing, NULL, 1);
	return 0;
}

/* A CPU with interrupts off does not answer the request of another. */
static void unanswered_call(void)
{
	struct task_struct *holder = kthread_create(hold_with_interrupts_off, NULL, "faults-holder");
	struct task_struct *asker = kthread_create(ask_other_cpu, NULL, "faults-asker");

	if (IS_ERR(holder) || IS_ERR(asker))
		return;
	stay_on_first_cpu();
	kthread_bind(holder, 1);
	kthread_bind(asker, 0);
	wake_up_process(holder);
	wait_for(&held);
	pr_info("faults: ready\n");
	wake_up_process(asker);
}

const struct situation cpu_situations[] = {
	{ "spinlock", spinlock },
	{ "soft-lockup", soft_lockup },
	{ "unanswered-call", unanswered_call },
	{}
};
