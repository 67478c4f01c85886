/* Flags of /proc/kpageflags and the reading of it, shared by fill.c and report.c.
 * The numbers are the kernel's ABI: include/uapi/linux/kernel-page-flags.h, and for those from 32 on
 * include/linux/kernel-page-flags.h. */
#ifndef PAGES_H
#define PAGES_H

#include <stddef.h>
#include <stdint.h>

/* The size of the kernel's pages, set by main(); at most PAGE_MAX. */
extern size_t page_size;
#define PAGE page_size
#define PAGE_MAX (64UL << 10)
#define HUGE_PAGE (2UL << 20)

#define KPF(bit) (1ULL << (bit))
#define KPF_DIRTY KPF(4)
#define KPF_LRU KPF(5)
#define KPF_WRITEBACK KPF(8)
#define KPF_BUDDY KPF(10)
#define KPF_ANON KPF(12)
#define KPF_SWAPBACKED KPF(14)
#define KPF_HUGE KPF(17)
#define KPF_HWPOISON KPF(19)
#define KPF_KSM KPF(21)
#define KPF_THP KPF(22)
#define KPF_MLOCKED KPF(33)
#define KPF_PRIVATE KPF(35)

/* One kind of page the guest holds on purpose. */
struct region {
	const char *kind;
	size_t pages;       /* as the plan asks */
	void *addr;         /* mapped for good, or NULL when `path` is mapped only to look */
	const char *path;   /* a file whose page cache is meant */
	uint64_t need;      /* kpageflags that each page must have to count */
	uint64_t never;     /* and those it must not have */
	uint32_t *pfns;     /* known beforehand (poisoned pages have no mapping left), or NULL */
};

void die(const char *what);

/* Frame numbers behind [addr, addr + pages); frames not present are left out. Returns how many. */
size_t frames_of(const void *addr, size_t pages, uint32_t *pfns);

/* Counts, prints on the console and writes to the notes disk what each region really holds. */
void report(const char *notes_disk, struct region *regions, size_t count);

#endif
