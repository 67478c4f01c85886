/* What the tests in C share: checks, and what the kernel says of memory. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)
#define SAME(left, right) same((long long)(left), (long long)(right), #left " == " #right, __FILE__, __LINE__)

static inline void check(int good, const char *text, const char *file, int line)
{
    if (!good) {
        fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
        exit(1);
    }
}

static inline void same(long long left, long long right, const char *text, const char *file, int line)
{
    if (left != right) {
        fprintf(stderr, "%s:%d: not so: %s: %lld and %lld\n", file, line, text, left, right);
        exit(1);
    }
}

/* How many pages are in memory, by mincore(2); -1 where a part is not mapped. */
static inline long resident_pages(void *address, size_t length)
{
    size_t pages = length / (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *there = (unsigned char *)malloc(pages);
    long count = 0;
    if (mincore(address, length, there) != 0)
        count = -1;
    else
        for (size_t i = 0; i < pages; i++)
            count += there[i] & 1;
    free(there);
    return count;
}

/* The KiB behind a name, such as "Locked:", of the mappings that begin within so many bytes, in smaps. */
static inline long smaps_kib(const void *address, size_t length, const char *name)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    int within = 0;
    long kib = 0;
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        uintptr_t start, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
            within = start >= (uintptr_t)address && start < (uintptr_t)address + length;
        else if (within && strncmp(line, name, strlen(name)) == 0)
            kib += strtol(line + strlen(name), NULL, 10);
    }
    fclose(file);
    return kib;
}

/* A mapping of its own, that the kernel makes one with no neighbour. */
static inline void *map(size_t length, int protection, int flags)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *around = (char *)mmap(NULL, length + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *memory;
    CHECK(around != MAP_FAILED);
    memory = mmap(around + page, length, protection, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(memory == around + page);
    return memory;
}

#endif
