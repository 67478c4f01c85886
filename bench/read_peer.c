/*
 * Reads pages of a dump through libkdumpfile, for bench/read:
 *
 *     read_peer DUMP LISTS CACHE_PAGES READS
 *
 * LISTS has the files all, hot and cold, physical addresses as integers of 64
 * bits. Each is read one page a call, as a debugger reads: `cold` by a context that
 * read nothing before, `all` from front to back by another one, and `hot` by a third
 * one, READS pages of it at random after it was read three times. Prints the seconds
 * that each took.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libkdumpfile/kdumpfile.h>

#define PAGE 4096

struct list {
	uint64_t *addresses;
	size_t count;
};

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "read_peer: %s: %s\n", what, why);
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static struct list read_list(const char *directory, const char *name)
{
	char path[4096];
	struct list list;
	FILE *file;
	long size;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "rb");
	if (!file)
		fail(path, strerror(errno));
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	list.count = size / sizeof(uint64_t);
	list.addresses = malloc(size + 1);
	if (!list.addresses || list.count == 0 ||
	    fread(list.addresses, sizeof(uint64_t), list.count, file) != list.count)
		fail(path, "cannot be read");
	fclose(file);
	return list;
}

static kdump_ctx_t *open_dump(const char *path, unsigned long cache_pages)
{
	kdump_ctx_t *dump = kdump_new();
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		fail(path, strerror(errno));
	if (!dump)
		fail(path, "no memory");
	if (kdump_set_number_attr(dump, KDUMP_ATTR_FILE_FD, fd) != KDUMP_OK)
		fail(path, kdump_get_err(dump));
	if (kdump_set_number_attr(dump, "cache.size", cache_pages) != KDUMP_OK)
		fail("cache.size", kdump_get_err(dump));
	return dump;
}

static void read_page(kdump_ctx_t *dump, uint64_t address)
{
	static char page[PAGE];
	size_t len = PAGE;

	if (kdump_read(dump, KDUMP_MACHPHYSADDR, address, page, &len) != KDUMP_OK)
		fail("kdump_read", kdump_get_err(dump));
	__asm__ volatile("" : : "r"(page) : "memory");
}

static double read_all(kdump_ctx_t *dump, struct list list)
{
	double begin = now();

	for (size_t index = 0; index < list.count; index++)
		read_page(dump, list.addresses[index]);
	return now() - begin;
}

int main(int argc, char **argv)
{
	struct list all, hot, cold;
	unsigned long cache_pages, reads;
	uint64_t number = 1;
	kdump_ctx_t *dump;
	double begin;

	if (argc != 5)
		fail("usage", "read_peer DUMP LISTS CACHE_PAGES READS");
	cache_pages = strtoul(argv[3], NULL, 10);
	reads = strtoul(argv[4], NULL, 10);
	all = read_list(argv[2], "all");
	hot = read_list(argv[2], "hot");
	cold = read_list(argv[2], "cold");

	dump = open_dump(argv[1], cache_pages);
	printf("cold %zu %.9f\n", cold.count, read_all(dump, cold));
	kdump_free(dump);

	dump = open_dump(argv[1], cache_pages);
	printf("all %zu %.9f\n", all.count, read_all(dump, all));
	kdump_free(dump);

	dump = open_dump(argv[1], cache_pages);
	for (int times = 0; times < 3; times++)
		read_all(dump, hot);
	begin = now();
	for (unsigned long done = 0; done < reads; done++) {
		number ^= number << 13;
		number ^= number >> 7;
		number ^= number << 17;
		read_page(dump, hot.addresses[number % hot.count]);
	}
	printf("warm %lu %.9f\n", reads, now() - begin);
	kdump_free(dump);
	return 0;
}
