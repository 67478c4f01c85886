/*
 * Preloaded: reads of the file BAD_FILE fail with EIO in the sector of 4096 bytes at BAD_OFFSET.
 * As in the kernel, bytes before the sector are read.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTOR 4096

ssize_t pread64(int fd, void *buf, size_t count, off64_t offset)
{
	static ssize_t (*next)(int, void *, size_t, off64_t);
	const char *file = getenv("BAD_FILE"), *at = getenv("BAD_OFFSET");
	char link[64], path[4096];
	long long bad;
	ssize_t len;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pread64");
	if (!file || !at)
		return next(fd, buf, count, offset);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (len < 0)
		return next(fd, buf, count, offset);
	path[len] = 0;
	bad = atoll(at);
	if (strcmp(path, file) || offset >= bad + SECTOR || offset + (long long)count <= bad)
		return next(fd, buf, count, offset);
	if (offset < bad)
		return next(fd, buf, bad - offset, offset);
	errno = EIO;
	return -1;
}
