/* Fills the guest's memory with every class of page that a dump filter tells apart, on purpose and counted.
 *
 *     fill PLAN NOTES_DISK
 *
 * PLAN has lines `KIND PAGES`, in pages of the kernel. Kinds are made in the order of the table `kinds` below: the
 * ones that want unbroken 2 MiB of memory come first. When all is made, the program reports (report.c) and sleeps, so
 * that the memory stays as it is until the dump. */
#define _GNU_SOURCE
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif

size_t page_size;
static int compressible; /* plan line `compressible 1`: no random bytes, for the small shipped sample */

void die(const char *what)
{
	printf("bigiron-vmtest: {\"error\": \"%s: %s\"}\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

static void say_missing(const char *kind, const char *why)
{
	printf("bigiron-vmtest: {\"missing\": \"%s\", \"why\": \"%s\"}\n", kind, why);
}

/* --- contents ------------------------------------------------------------------------------------------------- */

static uint64_t random_state = 0x9e3779b97f4a7c15ULL;

/* xorshift64: the same contents in every guest, so that two vmcores of one recipe differ only where kernels do. */
static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void write_text(char *page)
{
	static const char *const words[] = {
		"iron ", "ledger ", "tower ", "fifteen ", "queue ", "of ", "tickets ", "and ", "the ", "clerk ", "waits\n",
		"for ", "paper ", "0x7f ", "row=", "column=", "error ", "none ", "warm ", "morning\n", "\t", "a ", "in ", "12 ",
	};
	size_t at = 0;

	while (at < PAGE) {
		const char *word = words[next_random() % (sizeof words / sizeof words[0])];
		size_t n = strlen(word) < PAGE - at ? strlen(word) : PAGE - at;

		memcpy(page + at, word, n);
		at += n;
	}
}

static void write_noise(char *page)
{
	for (size_t at = 0; at < PAGE; at += sizeof(uint64_t)) {
		uint64_t value = next_random();

		memcpy(page + at, &value, sizeof value);
	}
}

/* A page like those of a program's heap: mostly zeros and small numbers, and a stamp that makes it unlike the others. */
static void write_records(char *page, uint64_t number)
{
	uint64_t record[8] = { 0x6d65676169726f6eULL, number, 1, 0, 64, 0, 0, ~number };

	memset(page, 0, PAGE);
	for (size_t at = 0; at < PAGE; at += 512)
		memcpy(page + at, record, sizeof record);
}

/* Half text, a quarter records, a quarter noise. */
static void write_page(char *page, uint64_t number)
{
	if (number % 4 == 3 && !compressible)
		write_noise(page);
	else if (number % 2 == 1 || compressible)
		write_records(page, number);
	else
		write_text(page);
}

static void write_pages(char *addr, size_t pages)
{
	static uint64_t number;

	for (size_t i = 0; i < pages; i++)
		write_page(addr + i * PAGE, number++);
}

static void *map_anonymous(size_t bytes, int more_flags)
{
	void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);

	if (addr == MAP_FAILED)
		die("mmap");
	return addr;
}

/* Memory that must stay in single pages says so: many kernels give huge pages to all (TRANSPARENT_HUGEPAGE_ALWAYS). */
static void *map_small_pages(size_t pages)
{
	void *addr = map_anonymous(pages * PAGE, 0);

	if (madvise(addr, pages * PAGE, MADV_NOHUGEPAGE))
		die("madvise nohugepage");
	return addr;
}

static void write_word(const char *path, const char *word)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(word, file) < 0 || fclose(file))
		die(path);
}

static void write_number(const char *path, size_t number)
{
	char word[24];

	snprintf(word, sizeof word, "%zu", number);
	write_word(path, word);
}

static void write_file(const char *path, size_t pages, int sync)
{
	static char page[PAGE_MAX];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0)
		die(path);
	for (size_t i = 0; i < pages; i++) {
		write_pages(page, 1);
		if (write(fd, page, PAGE) != (ssize_t)PAGE)
			die(path);
	}
	if (sync && fsync(fd))
		die(path);
	close(fd);
}

/* --- one maker for each kind ---------------------------------------------------------------------------------- */

/* With less than 512 MiB the kernel switches huge pages off at boot (mm/huge_memory.c, hugepage_init). */
static void make_thp(struct region *region)
{
	size_t bytes = region->pages * PAGE;
	char *addr = map_anonymous(bytes + HUGE_PAGE, 0);

	write_word("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	write_word("/sys/kernel/mm/transparent_hugepage/defrag", "madvise");
	addr = (char *)(((uintptr_t)addr + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	if (madvise(addr, bytes, MADV_HUGEPAGE))
		die("madvise hugepage");
	write_pages(addr, region->pages);
	region->addr = addr;
}

/* One huge page more than is mapped stays free in the pool: it belongs to no process and is not in the buddy lists. */
static void make_hugetlb(struct region *region)
{
	write_number("/proc/sys/vm/nr_hugepages", region->pages * PAGE / HUGE_PAGE + 1);
	region->addr = map_anonymous(region->pages * PAGE, MAP_HUGETLB);
	write_pages(region->addr, region->pages);
}

static void make_anon(struct region *region)
{
	region->addr = map_small_pages(region->pages);
	write_pages(region->addr, region->pages);
}

/* Written, not only read: a read would map the one shared zero page. */
static void make_anon_zero(struct region *region)
{
	volatile char *addr = map_small_pages(region->pages);

	for (size_t i = 0; i < region->pages; i++)
		addr[i * PAGE] = 0;
	region->addr = (void *)addr;
}

static void make_anon_equal(struct region *region)
{
	char *addr = map_small_pages(region->pages);

	write_text(addr);
	for (size_t i = 1; i < region->pages; i++)
		memcpy(addr + i * PAGE, addr, PAGE);
	region->addr = addr;
}

static void make_mlocked(struct region *region)
{
	make_anon(region);
	if (mlock(region->addr, region->pages * PAGE))
		die("mlock");
}

/* The kernel's same-page merging leaves one frame for many pages. Only one frame in two is left here, as each text is
 * written twice. */
static void make_ksm(struct region *region)
{
	size_t merged = region->pages;
	char *addr = map_small_pages(merged * 2);
	size_t shared = 0;

	for (size_t i = 0; i < merged; i++) {
		write_text(addr + i * PAGE);
		memcpy(addr + (merged + i) * PAGE, addr + i * PAGE, PAGE);
	}
	if (madvise(addr, merged * 2 * PAGE, MADV_MERGEABLE))
		die("madvise mergeable");
	write_number("/sys/kernel/mm/ksm/pages_to_scan", merged * 2);
	write_number("/sys/kernel/mm/ksm/sleep_millisecs", 20);
	write_number("/sys/kernel/mm/ksm/run", 1);
	for (int tries = 0; tries < 300 && shared < merged; tries++) {
		FILE *file = fopen("/sys/kernel/mm/ksm/pages_shared", "r");

		if (!file || fscanf(file, "%zu", &shared) != 1)
			die("pages_shared");
		fclose(file);
		usleep(100000);
	}
	write_number("/sys/kernel/mm/ksm/run", 0);
	region->addr = addr;
}

static void make_shm(struct region *region)
{
	int id = shmget(IPC_PRIVATE, region->pages * PAGE, IPC_CREAT | 0600);

	if (id < 0)
		die("shmget");
	region->addr = shmat(id, NULL, 0);
	if (region->addr == (void *)-1)
		die("shmat");
	write_pages(region->addr, region->pages);
}

/* ext4 attaches buffer heads (PG_private) to pages it writes, not to pages it reads through mpage_readahead. */
static void make_read_file(struct region *region)
{
	static char page[PAGE_MAX];
	int fd = open(region->path, O_RDONLY);
	size_t left = region->pages * PAGE;

	if (fd < 0)
		die(region->path);
	while (left) {
		ssize_t n = read(fd, page, left < sizeof page ? left : sizeof page);

		if (n <= 0)
			die("file too short for the plan");
		left -= n;
	}
	close(fd);
}

static void make_written_file(struct region *region)
{
	write_file(region->path, region->pages, 0);
}

static void make_synced_file(struct region *region)
{
	write_file(region->path, region->pages, 1);
}

/* A directory entry and a tmpfs inode take together about 1 KiB of slab: four files make 4 KiB. Slab pages are not
 * mapped by anybody, so they cannot be counted here; the host counts them in kpageflags. */
static void make_slab(struct region *region)
{
	char path[96];

	for (size_t i = 0; i < region->pages * (PAGE / 1024); i++) {
		snprintf(path, sizeof path, "/tmp/files/%zu-a-name-longer-than-those-kept-in-the-dentry", i);
		int fd = open(path, O_WRONLY | O_CREAT, 0600);

		if (fd < 0)
			die(path);
		close(fd);
	}
	region->pages = 0;
}

static void go_on(int number)
{
	(void)number;
}

/* Poisons pages one by one. Each loses its mapping, so its frame number is taken before. The last page is one of a
 * clean file: the kernel drops it from the page cache and the file can be read again. */
static void make_poison(struct region *region)
{
	size_t anonymous = region->pages - 1, made = 0;
	char *addr = map_small_pages(anonymous);
	int fd = open(region->path, O_RDONLY);
	char *cached = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (fd < 0 || cached == MAP_FAILED)
		die(region->path);
	write_pages(addr, anonymous);
	/* The owner of a lost dirty page gets a SIGBUS that ends it even when it is ignored: only a handler will do. */
	signal(SIGBUS, go_on);
	region->pfns = map_anonymous(region->pages * sizeof(uint32_t), 0);
	for (size_t i = 0; i < region->pages; i++) {
		char *page = i < anonymous ? addr + i * PAGE : cached;

		if (frames_of(page, 1, &region->pfns[made]) != 1)
			die("page to poison is not present");
		if (madvise(page, PAGE, MADV_HWPOISON) == 0) {
			made++;
		} else if (errno == EINVAL) {
			say_missing("poison", "kernel built without CONFIG_MEMORY_FAILURE");
			break;
		} else {
			die("madvise hwpoison");
		}
	}
	close(fd);
	region->pages = made;
}

/* --- the plan ------------------------------------------------------------------------------------------------- */

#define IN_CACHE KPF_LRU
#define NOT_CACHE (KPF_ANON | KPF_SWAPBACKED)
/* KPF_KSM is no use as a `never`: Linux 6.12 shows it for all anonymous pages (fs/proc/page.c tests
 * `mapping & PAGE_MAPPING_KSM`, and that constant has the bit of anonymous pages in it). */

static const struct {
	struct region region;
	void (*make)(struct region *);
} kinds[] = {
	{ { .kind = "hugetlb", .need = KPF_HUGE }, make_hugetlb },
	{ { .kind = "thp", .need = KPF_THP | KPF_ANON, .never = KPF_HUGE }, make_thp },
	{ { .kind = "anon", .need = KPF_ANON | KPF_LRU, .never = KPF_THP }, make_anon },
	{ { .kind = "anon_zero", .need = KPF_ANON | KPF_LRU, .never = KPF_THP }, make_anon_zero },
	{ { .kind = "anon_equal", .need = KPF_ANON | KPF_LRU, .never = KPF_THP }, make_anon_equal },
	{ { .kind = "mlocked", .need = KPF_ANON | KPF_MLOCKED, .never = KPF_THP }, make_mlocked },
	{ { .kind = "ksm", .need = KPF_ANON | KPF_KSM }, make_ksm },
	{ { .kind = "shm", .need = KPF_SWAPBACKED | KPF_LRU, .never = KPF_ANON | KPF_PRIVATE }, make_shm },
	{ { .kind = "tmpfs", .path = "/tmp/file", .need = KPF_SWAPBACKED | KPF_LRU, .never = KPF_ANON | KPF_PRIVATE },
	  make_written_file },
	{ { .kind = "slab" }, make_slab },
	/* On a data disk of ext4; on ramfs, which has no buffers and never writes back. */
	{ { .kind = "cache_clean", .path = "/data/clean", .need = IN_CACHE, .never = NOT_CACHE | KPF_DIRTY | KPF_PRIVATE },
	  make_read_file },
	{ { .kind = "cache_dirty", .path = "/ram/file", .need = IN_CACHE | KPF_DIRTY, .never = NOT_CACHE | KPF_PRIVATE },
	  make_written_file },
	{ { .kind = "cache_private_clean", .path = "/data/synced", .need = IN_CACHE | KPF_PRIVATE,
	    .never = NOT_CACHE | KPF_DIRTY | KPF_WRITEBACK },
	  make_synced_file },
	{ { .kind = "cache_private_dirty", .path = "/data/written", .need = IN_CACHE | KPF_PRIVATE | KPF_DIRTY,
	    .never = NOT_CACHE },
	  make_written_file },
	{ { .kind = "poison", .path = "/data/poison", .need = KPF_HWPOISON }, make_poison },
};

#define KINDS (sizeof kinds / sizeof kinds[0])

static size_t asked[KINDS];

static void read_plan(const char *path)
{
	FILE *file = fopen(path, "r");
	char kind[32];
	size_t pages;

	if (!file)
		die(path);
	while (fscanf(file, "%31s %zu", kind, &pages) == 2) {
		size_t i = 0;

		if (!strcmp(kind, "compressible")) {
			compressible = pages != 0;
			continue;
		}
		while (i < KINDS && strcmp(kind, kinds[i].region.kind))
			i++;
		if (i == KINDS)
			die(kind);
		asked[i] = pages;
	}
	fclose(file);
}

int main(int argc, char **argv)
{
	static struct region regions[KINDS];
	size_t count = 0;

	if (argc != 3)
		die("usage: fill PLAN NOTES_DISK");
	page_size = sysconf(_SC_PAGESIZE);
	if (page_size > PAGE_MAX)
		die("pages are larger than PAGE_MAX");
	read_plan(argv[1]);
	for (size_t i = 0; i < KINDS; i++) {
		if (!asked[i])
			continue;
		regions[count] = kinds[i].region;
		regions[count].pages = asked[i];
		kinds[i].make(&regions[count]);
		count += regions[count].pages != 0;
	}
	report(argv[2], regions, count);
	printf("bigiron-vmtest: filled\n");
	fflush(stdout);
	for (;;)
		pause();
}
