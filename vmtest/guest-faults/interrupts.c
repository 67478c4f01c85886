// SPDX-License-Identifier: MIT OR Apache-2.0
/* Situations of interrupts: timers, softirqs and interrupts that come again at once. */

#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "faults.h"

/* The CPU that has them; its neighbour starts them. */
#define CPU 1

/* Calls `begin` on the CPU. Whoever waits for an answer of it from then on waits for ever. */
static void start_there(void (*begin)(void *), bool wait)
{
	set_cpus_allowed_ptr(current, cpumask_of(0));
	pr_info("faults: ready\n");
	smp_call_function_single(CPU, begin, NULL, wait);
}

static struct hrtimer storm_timer;

/* Its time stays that of its start, so that it is always due. */
static enum hrtimer_restart rearm(struct hrtimer *timer)
{
	cpu_relax();
	return HRTIMER_RESTART;
}

static void start_timer(void *data)
{
	hrtimer_start(&storm_timer, ktime_get(), HRTIMER_MODE_ABS_PINNED_HARD);
}

/* A timer that is always due: its CPU does not leave the timer's interrupt. */
static void timer_storm(void)
{
	hrtimer_init(&storm_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	storm_timer.function = rearm;
	start_there(start_timer, false);
}

static struct tasklet_struct storm_tasklet;

static void schedule_again(struct tasklet_struct *tasklet)
{
	udelay(200);
	tasklet_schedule(tasklet);
}

static void start_tasklet(void *data)
{
	tasklet_schedule(&storm_tasklet);
}

/* A tasklet that schedules itself: softirqs take all of its CPU. */
static void softirq_storm(void)
{
	tasklet_setup(&storm_tasklet, schedule_again);
	start_there(start_tasklet, true);
}

static void queue_again(struct irq_work *work);
static struct irq_work storm_work = IRQ_WORK_INIT_HARD(queue_again);

static void queue_again(struct irq_work *work)
{
	irq_work_queue(work);
}

static void start_work(void *data)
{
	irq_work_queue(&storm_work);
}

/* An interrupt that raises itself: its CPU does nothing else. */
static void interrupt_storm(void)
{
	start_there(start_work, false);
}

const struct situation interrupt_situations[] = {
	{ "timer-storm", timer_storm },
	{ "softirq-storm", softirq_storm },
	{ "interrupt-storm", interrupt_storm },
	{}
};
