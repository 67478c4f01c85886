// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What busybox has no programs for: devices of the device mapper, and the end of a file system.
 *
 *	devices map NAME DEVICE		maps a whole device, linearly
 *	devices paths NAME DEVICE	maps it as the one path of a multipath device
 *	devices fail NAME DEVICE	makes that path fail
 *	devices suspend NAME		suspends the mapping; requests wait from then on
 *	devices shutdown DIRECTORY	shuts the file system down, as an error would
 */

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN; EXT4_GOING_FLAGS_NOLOGFLUSH. */
#define SHUTDOWN _IOR('X', 125, uint32_t)
#define NO_LOG_FLUSH 2

static struct {
	struct dm_ioctl head;
	struct dm_target_spec target;
	char parameters[256];
} request;

static int control(unsigned long command, const char *name, unsigned int flags, unsigned int targets)
{
	int file = open("/dev/mapper/control", O_RDWR);

	/* The last answer is there. */
	memset(&request.head, 0, sizeof(request.head));
	request.head.target_count = targets;
	request.head.version[0] = DM_VERSION_MAJOR;
	request.head.data_size = sizeof(request);
	request.head.data_start = sizeof(request.head);
	request.head.flags = flags;
	snprintf(request.head.name, sizeof(request.head.name), "%s", name);
	return file < 0 ? -1 : ioctl(file, command, &request);
}

static int map(const char *name, const char *type, const char *format, const char *device)
{
	uint64_t bytes;
	int file = open(device, O_RDONLY);

	if (file < 0 || ioctl(file, BLKGETSIZE64, &bytes))
		return -1;
	close(file);
	if (control(DM_DEV_CREATE, name, 0, 0))
		return -1;
	request.target.length = bytes / 512;
	strcpy(request.target.target_type, type);
	snprintf(request.parameters, sizeof(request.parameters), format, device);
	if (control(DM_TABLE_LOAD, name, 0, 1))
		return -1;
	/* Without DM_SUSPEND_FLAG: it begins to work. */
	return control(DM_DEV_SUSPEND, name, 0, 0);
}

/* A struct dm_target_msg: the sector and the text. */
static int fail(const char *name, const char *device)
{
	memset(&request.target, 0, sizeof(request.target));
	snprintf((char *)&request.target + sizeof(uint64_t), 64, "fail_path %s", device);
	return control(DM_TARGET_MSG, name, 0, 0);
}

static int shut_down(const char *directory)
{
	uint32_t how = NO_LOG_FLUSH;

	return ioctl(open(directory, O_RDONLY), SHUTDOWN, &how);
}

int main(int count, char **words)
{
	int status = -1;

	if (count == 4 && !strcmp(words[1], "map"))
		status = map(words[2], "linear", "%s 0", words[3]);
	else if (count == 4 && !strcmp(words[1], "paths"))
		status = map(words[2], "multipath", "1 queue_if_no_path 0 1 1 round-robin 0 1 1 %s 1000", words[3]);
	else if (count == 4 && !strcmp(words[1], "fail"))
		status = fail(words[2], words[3]);
	else if (count == 3 && !strcmp(words[1], "suspend"))
		status = control(DM_DEV_SUSPEND, words[2], DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG, 0);
	else if (count == 3 && !strcmp(words[1], "shutdown"))
		status = shut_down(words[2]);
	if (status)
		perror("devices");
	return status ? 1 : 0;
}
