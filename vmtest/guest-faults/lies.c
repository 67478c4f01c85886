// SPDX-License-Identifier: MIT OR Apache-2.0
/* Struct pages that lie: page frames of the kernel itself look like page cache and user memory. */

#include <linux/fs.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>
#include <asm/pgtable.h>
#include <asm/sections.h>

#include "faults.h"

static unsigned long (*address_of)(const char *name);
/* What the struct pages pretend to belong to. */
static struct address_space *pretended;
static unsigned long lies;

/* kallsyms_lookup_name() is not exported; a probe finds it. */
static bool find_symbols(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };

	if (register_kprobe(&probe))
		return false;
	address_of = (void *)probe.addr;
	unregister_kprobe(&probe);
	return true;
}

/* Every other page is anonymous memory, the others are page cache. Nobody is told: the page is on no list. */
static void lie(struct page *page)
{
	unsigned long bits = lies % 2 ? PAGE_MAPPING_ANON : 0;

	if (((unsigned long)page->mapping & ~3UL) == (unsigned long)pretended)
		return;
	page->mapping = (void *)((unsigned long)pretended | bits);
	set_bit(PG_lru, &page->flags);
	lies++;
}

static void lie_about(const char *what, unsigned long start, unsigned long end)
{
	unsigned long before = lies;

	for (start = ALIGN_DOWN(start, PAGE_SIZE); start < end; start += PAGE_SIZE)
		lie(pfn_to_page(PHYS_PFN(slow_virt_to_phys((void *)start))));
	pr_info("faults: %lu lies about %s\n", lies - before, what);
}

static void lie_about_pointed(const char *name, unsigned long bytes)
{
	unsigned long *pointer = (void *)address_of(name);

	if (pointer)
		lie_about(name, *pointer, *pointer + bytes);
}

static void lie_about_stacks(void)
{
	struct task_struct *process, *task;
	unsigned int page;

	rcu_read_lock();
	for_each_process_thread(process, task) {
		struct vm_struct *area = task->stack_vm_area;

		for (page = 0; area && page < area->nr_pages; page++)
			lie(area->pages[page]);
	}
	rcu_read_unlock();
}

/* The struct pages of the memory map itself, and the page tables that map it, all other memory, and modules. */
static void lie_about_map(void)
{
	unsigned long pfn, struct_page, page;
	unsigned int level;
	pte_t *entry;

	for (pfn = 0; pfn < get_num_physpages(); pfn += PTRS_PER_PTE) {
		struct_page = (unsigned long)pfn_to_page(pfn);
		entry = lookup_address(struct_page, &level);
		if (!entry || level != PG_LEVEL_2M)
			continue;
		lie(virt_to_page(entry));
		for (page = 0; page < PTRS_PER_PTE; page++)
			lie(pfn_to_page(pmd_pfn(*(pmd_t *)entry) + page));
		entry = lookup_address((unsigned long)__va(PFN_PHYS(pfn)), &level);
		if (entry)
			lie(virt_to_page(entry));
	}
	entry = lookup_address((unsigned long)&lie_about_map, &level);
	if (entry)
		lie(virt_to_page(entry));
}

static void lying_pages(void)
{
	struct file *file = filp_open("/init", O_RDONLY, 0);
	unsigned long *offsets;
	unsigned int cpu;

	if (IS_ERR(file) || !find_symbols())
		return;
	pretended = file->f_mapping;
	lie_about("code", address_of("_text"), address_of("_etext"));
	lie_about("data", address_of("_sdata"), address_of("_edata"));
	offsets = (void *)address_of("__per_cpu_offset");
	for_each_possible_cpu(cpu)
		lie_about("per-CPU variables", address_of("__per_cpu_start") + offsets[cpu],
			  address_of("__per_cpu_end") + offsets[cpu]);
	lie_about("a module", (unsigned long)&lying_pages, (unsigned long)&lying_pages + 1);
	lie_about("a module", (unsigned long)THIS_MODULE, (unsigned long)THIS_MODULE + 1);
	lie_about_pointed("log_buf", *(int *)address_of("log_buf_len"));
	lie_about_pointed("vmcoreinfo_note", PAGE_SIZE);
	lie_about_pointed("vmcoreinfo_data", PAGE_SIZE);
	lie_about_stacks();
	lie_about_map();
	pr_info("faults: %lu lies\n", lies);
	panic("faults: struct pages lie");
}

const struct situation lie_situations[] = {
	{ "lying-pages", lying_pages },
	{ }
};
