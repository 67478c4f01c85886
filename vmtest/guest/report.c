/* What the guest says about its own memory, just before it is dumped.
 *
 * A test that only knows what a program asked for cannot tell a kernel that gave something else from a dumper that
 * reads it wrong. So each page is looked up in the kernel's own words: /proc/self/pagemap for its frame number,
 * /proc/kpageflags for its state.
 *
 * The notes disk gets, at offset 0, text lines `KIND FIRST-LAST` (page frame numbers, inclusive), and at
 * NOTES_KPAGEFLAGS the whole of /proc/kpageflags. Both are written with O_DIRECT, to leave no page cache behind. */
#define _GNU_SOURCE
#include "pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK (64UL << 10)
#define NOTES_KPAGEFLAGS (8UL << 20) /* lab/notes.py has the same number */

static char chunk[CHUNK] __attribute__((aligned(4096)));
static size_t chunk_used;
static off_t text_end;
static int notes;

static void flush_text(void)
{
	memset(chunk + chunk_used, 0, CHUNK - chunk_used);
	if (text_end + CHUNK > NOTES_KPAGEFLAGS)
		die("too many ranges for the notes disk");
	if (pwrite(notes, chunk, CHUNK, text_end) != (ssize_t)CHUNK)
		die("write notes");
	text_end += CHUNK;
	chunk_used = 0;
}

static void note(const char *kind, uint32_t first, uint32_t last)
{
	char line[80];
	int length = snprintf(line, sizeof line, "%s %u-%u\n", kind, first, last);

	for (int i = 0; i < length; i++) {
		chunk[chunk_used++] = line[i];
		if (chunk_used == CHUNK)
			flush_text();
	}
}

size_t frames_of(const void *addr, size_t pages, uint32_t *pfns)
{
	static uint64_t entries[512];
	int fd = open("/proc/self/pagemap", O_RDONLY);
	size_t found = 0;

	if (fd < 0)
		die("open pagemap");
	for (size_t done = 0; done < pages;) {
		size_t n = pages - done < 512 ? pages - done : 512;
		off_t at = ((uintptr_t)addr / PAGE + done) * sizeof entries[0];

		if (pread(fd, entries, n * sizeof entries[0], at) != (ssize_t)(n * sizeof entries[0]))
			die("read pagemap");
		for (size_t i = 0; i < n; i++)
			if (entries[i] >> 63) /* present */
				pfns[found++] = entries[i] & ((1ULL << 55) - 1);
		done += n;
	}
	close(fd);
	return found;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void report_region(struct region *region, int kpageflags)
{
	size_t bytes = region->pages * sizeof(uint32_t);
	uint32_t *pfns = region->pfns;
	size_t found = region->pages, good = 0;

	if (!pfns) {
		void *addr = region->addr;
		int fd = -1;

		pfns = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pfns == MAP_FAILED)
			die("mmap frame numbers");
		if (!addr) {
			fd = open(region->path, O_RDONLY);
			addr = mmap(NULL, region->pages * PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
			if (fd < 0 || addr == MAP_FAILED)
				die(region->path);
		}
		found = frames_of(addr, region->pages, pfns);
		if (!region->addr) {
			munmap(addr, region->pages * PAGE);
			close(fd);
		}
	}
	qsort(pfns, found, sizeof pfns[0], by_number);
	for (size_t i = 0; i < found; i++) {
		uint64_t flags;

		if (pread(kpageflags, &flags, sizeof flags, (off_t)pfns[i] * sizeof flags) != sizeof flags)
			die("read kpageflags");
		if ((flags & region->need) == region->need && !(flags & region->never))
			pfns[good++] = pfns[i];
	}
	for (size_t i = 0, first = 0; i < good; i++)
		if (i + 1 == good || pfns[i + 1] != pfns[i] + 1) {
			note(region->kind, pfns[first], pfns[i]);
			first = i + 1;
		}
	printf("bigiron-vmtest: {\"kind\": \"%s\", \"asked\": %zu, \"pages\": %zu}\n", region->kind, region->pages, good);
	if (pfns != region->pfns)
		munmap(pfns, bytes);
}

void report(const char *notes_disk, struct region *regions, size_t count)
{
	int kpageflags = open("/proc/kpageflags", O_RDONLY);
	size_t total = 0;

	notes = open(notes_disk, O_WRONLY | O_DIRECT);
	if (notes < 0 || kpageflags < 0)
		die("open notes disk or kpageflags");
	for (size_t i = 0; i < count; i++)
		report_region(&regions[i], kpageflags);
	flush_text();
	lseek(kpageflags, 0, SEEK_SET);
	for (;;) {
		ssize_t n = read(kpageflags, chunk, CHUNK);

		if (n < 0)
			die("read kpageflags");
		if (n == 0)
			break;
		/* O_DIRECT wants whole sectors: what stands after the end is cut off by the host. */
		if (pwrite(notes, chunk, CHUNK, NOTES_KPAGEFLAGS + total) != (ssize_t)CHUNK)
			die("write kpageflags");
		total += n;
		if (n % PAGE)
			break;
	}
	fsync(notes);
	close(notes);
	close(kpageflags);
	printf("bigiron-vmtest: {\"kpageflags\": %zu}\n", total / sizeof(uint64_t));
	fflush(stdout);
}
