// SPDX-License-Identifier: MIT OR Apache-2.0
/* Situations in which tasks wait for a part of a file, or of a process: a page, a buffer, an inode, its memory. */

#include <linux/blkdev.h>
#include <linux/buffer_head.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>

#include "faults.h"

#define SETTLE_MS 500
#define BLOCK 100

static bool held;

/* Starts a thread that takes a lock and sleeps, then one that waits for it. */
static void owner_and_waiter(int (*own)(void *), int (*wait)(void *), void *lock)
{
	start(own, lock, "owner");
	wait_for(&held);
	start(wait, lock, "waiter");
	msleep(SETTLE_MS);
}

static struct file *opened(const char *name)
{
	struct file *file = filp_open(name, O_RDONLY, 0);

	if (!IS_ERR(file))
		return file;
	pr_err("faults: cannot open %s\n", name);
	return NULL;
}

/* The folio is used behind the sleep, so that it is on the stack meanwhile, as in code that unlocks it. */
static int lock_page_and_sleep(void *folio)
{
	folio_lock(folio);
	held = true;
	sleep_forever();
	folio_unlock(folio);
	return 0;
}

static int take_page(void *folio)
{
	folio_lock(folio);
	return 0;
}

/* The lock of a page of a file. */
static void page_lock(void)
{
	struct file *file = opened("/mnt/faults-file");
	struct folio *folio = file ? read_mapping_folio(file->f_mapping, 0, file) : NULL;

	if (!IS_ERR_OR_NULL(folio))
		owner_and_waiter(lock_page_and_sleep, take_page, folio);
}

static int lock_buffer_and_sleep(void *buffer)
{
	lock_buffer(buffer);
	held = true;
	sleep_forever();
	unlock_buffer(buffer);
	return 0;
}

static int take_buffer(void *buffer)
{
	lock_buffer(buffer);
	return 0;
}

/* The lock of a buffer of a block device. */
static void buffer_lock(void)
{
	struct file *file = opened("/dev/vda");
	struct block_device *device = file ? I_BDEV(file->f_mapping->host) : NULL;
	struct buffer_head *buffer = device ? __bread(device, BLOCK, block_size(device)) : NULL;

	if (buffer)
		owner_and_waiter(lock_buffer_and_sleep, take_buffer, buffer);
}

static int lock_inode_and_sleep(void *inode)
{
	inode_lock(inode);
	held = true;
	sleep_forever();
	return 0;
}

static int take_inode(void *inode)
{
	inode_lock(inode);
	return 0;
}

/* The lock of an inode. */
static void inode_lock_held(void)
{
	struct file *file = opened("/mnt/faults-file");

	if (file)
		owner_and_waiter(lock_inode_and_sleep, take_inode, file_inode(file));
}

/* A process that has the lock of its own memory; others that look at that wait. */
static void hold_memory(void)
{
	down_write(&current->mm->mmap_lock);
	pr_info("faults: ready\n");
	sleep_forever();
}

/* A system call that does not end. The process has a futex for which others wait. */
static void sleep_in_driver(void)
{
	pr_info("faults: ready\n");
	sleep_forever();
}

const struct situation file_situations[] = {
	{ "page-lock", page_lock },
	{ "buffer-lock", buffer_lock },
	{ "inode-lock", inode_lock_held },
	{ "memory-lock", hold_memory },
	{ "futex-owner", sleep_in_driver },
	{}
};
