/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Situations that the module makes on purpose, each by one function. */

#ifndef FAULTS_H
#define FAULTS_H

#include <linux/kthread.h>
#include <linux/types.h>

struct situation {
	const char *name;
	void (*make)(void);
};

/* By file: each table ends with an empty entry. */
extern const struct situation wait_situations[];
extern const struct situation file_situations[];
extern const struct situation cpu_situations[];
extern const struct situation interrupt_situations[];
extern const struct situation memory_situations[];
extern const struct situation crash_situations[];
extern const struct situation lie_situations[];
extern const struct situation load_situations[];

/* Starts a thread `faults-NAME`. */
struct task_struct *start(int (*run)(void *), void *data, const char *name);

/* Sleeps, in the state D, until the machine ends. */
void sleep_forever(void);

/* Waits until `flag` is set by another thread. */
void wait_for(const bool *flag);

#endif
