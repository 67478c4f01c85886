/*
 * Preloaded: reads of the files BAD_FILES (:file:...:file:) fail with EIO in the sector of 4096
 * bytes at BAD_OFFSET. As in the kernel, bytes before the sector are read.
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
	const char *files = getenv("BAD_FILES"), *at = getenv("BAD_OFFSET");
	char link[64], path[4096] = ":";
	long long bad;
	ssize_t len;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pread64");
	if (!files || !at)
		return next(fd, buf, count, offset);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path + 1, sizeof(path) - 3);
	if (len < 0)
		return next(fd, buf, count, offset);
	strcpy(path + 1 + len, ":");
	bad = atoll(at);
	if (!strstr(files, path) || offset >= bad + SECTOR || offset + (long long)count <= bad)
		return next(fd, buf, count, offset);
	if (offset < bad)
		return next(fd, buf, bad - offset, offset);
	errno = EIO;
	return -1;
}
