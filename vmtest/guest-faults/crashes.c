// SPDX-License-Identifier: MIT OR Apache-2.0
/* Crashes of many kinds, of which only the title counts. */

#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "faults.h"

/* Kept from the compiler. */
static volatile unsigned long zero;
static unsigned long sum;

static const char constant[64] = "it cannot be changed";
static char data[64] __aligned(64);
static DEFINE_SPINLOCK(taken);

static noinline void divide_by_zero(void)
{
	sum = 1000 / zero;
}

static noinline void execute_nonsense(void)
{
	asm volatile("ud2");
	sum++;
}

static noinline void read_non_canonical(void)
{
	sum += READ_ONCE(*(unsigned long *)(0x0123456789abcdef + zero));
}

/* No area of the kernel's address space is there (Documentation/arch/x86/x86_64/mm.rst). */
static noinline void read_unmapped(void)
{
	sum += READ_ONCE(*(unsigned long *)(0xffffff7000000000 + zero));
}

static noinline void write_constant(void)
{
	WRITE_ONCE(*((char *)constant + zero), 'I');
}

static noinline void execute_data(void)
{
	void (*call)(void) = (void (*)(void))(data + zero);

	call();
	sum++;
}

static noinline void call_null(void)
{
	void (*call)(void) = (void (*)(void))zero;

	call();
	sum++;
}

static noinline void read_past_area(void)
{
	char *area = vmalloc(PAGE_SIZE);

	sum += READ_ONCE(area[PAGE_SIZE + zero]);
}

static noinline void warn(void)
{
	WARN_ON(!zero);
	sum++;
}

static noinline void put_too_often(void)
{
	refcount_t references = REFCOUNT_INIT(1);

	sum += refcount_dec_and_test(&references);
	sum += refcount_dec_and_test(&references);
}

static noinline void give_up(void)
{
	panic("faults: nothing helps on device %lu", zero + 42);
}

static noinline void sleep_with_lock(void)
{
	spin_lock(&taken);
	msleep(20);
	spin_unlock(&taken);
}

static noinline void take_twice(void)
{
	spin_lock(&taken);
	spin_lock(&taken);
	spin_unlock(&taken);
}

const struct situation crash_situations[] = {
	{ "divide-error", divide_by_zero },
	{ "invalid-opcode", execute_nonsense },
	{ "general-protection", read_non_canonical },
	{ "wild-pointer", read_unmapped },
	{ "write-constant", write_constant },
	{ "execute-data", execute_data },
	{ "call-null", call_null },
	{ "past-area", read_past_area },
	{ "warning", warn },
	{ "refcount", put_too_often },
	{ "panic", give_up },
	{ "sleep-with-lock", sleep_with_lock },
	{ "take-twice", take_twice },
	{ }
};
