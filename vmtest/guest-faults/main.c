// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A module that makes one situation: a deadlock, a fault, a corruption. `situation` names it, and `caller` through what
 * it is reached: the loading of the module (init), a thread of its own (thread), a work item (work), or a system call
 * on /proc/faults (file). The same fault is thus found with different callers on the stack.
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/workqueue.h>

#include "faults.h"

static char *situation = "";
module_param(situation, charp, 0400);
static char *caller = "thread";
module_param(caller, charp, 0400);

static const struct situation *chosen;

struct task_struct *start(int (*run)(void *), void *data, const char *name)
{
	struct task_struct *task = kthread_run(run, data, "faults-%s", name);

	if (IS_ERR(task))
		pr_err("faults: cannot start %s\n", name);
	return task;
}

void sleep_forever(void)
{
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
	}
}

void wait_for(const bool *flag)
{
	while (!READ_ONCE(*flag))
		msleep(10);
}

static noinline void make_situation(void)
{
	pr_info("faults: %s begins\n", chosen->name);
	chosen->make();
	pr_info("faults: ready\n");
}

static int by_thread(void *data)
{
	make_situation();
	return 0;
}

static void by_work(struct work_struct *work)
{
	make_situation();
}

static DECLARE_WORK(situation_work, by_work);

static ssize_t by_file(struct file *file, const char __user *text, size_t size, loff_t *at)
{
	make_situation();
	return size;
}

static const struct proc_ops file_operations = { .proc_write = by_file };

static const struct situation *find(const struct situation *table)
{
	for (; table->name; table++)
		if (!strcmp(table->name, situation))
			return table;
	return NULL;
}

static int __init begin(void)
{
	chosen = find(wait_situations) ?: find(file_situations) ?: find(cpu_situations)
		?: find(interrupt_situations) ?: find(memory_situations) ?: find(crash_situations) ?: find(lie_situations) ?: find(load_situations);
	if (!chosen) {
		pr_err("faults: there is no situation %s\n", situation);
		return -EINVAL;
	}
	if (!strcmp(caller, "init"))
		make_situation();
	else if (!strcmp(caller, "work"))
		schedule_work(&situation_work);
	else if (!strcmp(caller, "file"))
		proc_create("faults", 0200, NULL, &file_operations);
	else
		start(by_thread, NULL, "maker");
	return 0;
}

module_init(begin);
MODULE_DESCRIPTION("Makes situations that bigiron diagnose must find");
MODULE_LICENSE("Dual MIT/GPL");
