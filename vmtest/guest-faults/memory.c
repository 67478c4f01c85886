// SPDX-License-Identifier: MIT OR Apache-2.0
/* Situations of memory: faults, corruption, exhaustion. */

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/refcount.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>

#include "faults.h"

struct thing {
	struct list_head list;
	struct thing *next;
	unsigned long values[28];
};

static struct kmem_cache *things;
static LIST_HEAD(list_of_things);
/* Keeps the compiler from removing reads. */
static unsigned long sum;

/* A cache from which user space may copy is not merged with others of the same size. */
static struct thing *new_thing(void)
{
	if (!things)
		things = kmem_cache_create_usercopy("faults_things", sizeof(struct thing), 0, 0, 0, 8, NULL);
	return things ? kmem_cache_zalloc(things, GFP_KERNEL) : NULL;
}

static noinline void use(struct thing *thing)
{
	sum += READ_ONCE(thing->next)->values[0];
}

/* A pointer that is NULL. */
static void null_pointer(void)
{
	struct thing *thing = new_thing();

	use(thing);
}

/* A pointer out of an object that was freed; with slub_debug=P the object is poisoned. */
static void use_after_free(void)
{
	struct thing *thing = new_thing();

	thing->next = thing;
	kmem_cache_free(things, thing);
	use(thing);
}

/* An object is freed twice. */
static void double_free(void)
{
	struct thing *thing = new_thing();

	kmem_cache_free(things, thing);
	kmem_cache_free(things, thing);
	/* Without something to do after it, the call would not be on the stack. */
	sum++;
}

/* A write past the end of an object, which slub_debug=Z notices when it is freed. */
static void write_past_object(void)
{
	struct thing *thing = new_thing();
	volatile unsigned long *values = thing->values;

	values[ARRAY_SIZE(thing->values)] = 0x1234567812345678;
	kmem_cache_free(things, thing);
	sum++;
}

/* An element of a list is removed whose neighbour does not point back. */
static void list_corruption(void)
{
	struct thing *one = new_thing(), *two = new_thing();

	list_add(&one->list, &list_of_things);
	list_add(&two->list, &list_of_things);
	one->list.prev = &one->list;
	list_del(&two->list);
	list_del(&one->list);
}

/* An element of a list is removed twice. */
static void list_removed_twice(void)
{
	struct thing *one = new_thing();

	list_add(&one->list, &list_of_things);
	list_del(&one->list);
	use((struct thing *)((char *)one->list.next - offsetof(struct thing, next)));
}

/* One bit of a pointer is wrong. */
static void flipped_bit(void)
{
	struct thing *thing = new_thing();

	thing->next = (struct thing *)((unsigned long)thing ^ 1UL << 45);
	use(thing);
}

static noinline unsigned long recurse(unsigned long depth)
{
	volatile unsigned long room[64];

	room[0] = depth;
	if (depth == 0)
		return 0;
	return recurse(depth + 1) + room[0];
}

/* Recursion without an end. */
static void stack_overflow(void)
{
	sum += recurse(1);
}

/* The end of a task's stack is overwritten. */
static void stack_end(void)
{
	*end_of_stack(current) = 0x0123456789abcdef;
	schedule();
}

/* A cache whose objects are never freed takes all memory. */
static void slab_leak(void)
{
	while (new_thing())
		;
}

static noinline void put_thing(refcount_t *references)
{
	sum += refcount_dec_and_test(references);
}

/* An object whose references are put more often than taken. */
static void refcount_saturated(void)
{
	refcount_t *references = (refcount_t *)&new_thing()->values[3];

	refcount_set(references, 1);
	put_thing(references);
	put_thing(references);
	/* The pointer stays in a register until here. */
	sum += refcount_read(references);
}

/* A page is freed while it is locked. The kernel checks large blocks at once, others later. */
static noinline void free_locked_page(void)
{
	struct page *page = alloc_pages(GFP_KERNEL, 4);

	__set_bit(PG_locked, &page->flags);
	__free_pages(page, 4);
	sum++;
}

/* A bug that the code notices. */
static void bug(void)
{
	BUG();
}

const struct situation memory_situations[] = {
	{ "null-pointer", null_pointer },
	{ "use-after-free", use_after_free },
	{ "double-free", double_free },
	{ "write-past-object", write_past_object },
	{ "list-corruption", list_corruption },
	{ "list-removed-twice", list_removed_twice },
	{ "flipped-bit", flipped_bit },
	{ "stack-overflow", stack_overflow },
	{ "stack-end", stack_end },
	{ "slab-leak", slab_leak },
	{ "refcount-saturated", refcount_saturated },
	{ "bad-page", free_locked_page },
	{ "bug", bug },
	{}
};
