// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A server of NFS version 3 for one mount of one directory (RFC 1813), over TCP at port 2049, and the mount itself.
 *
 *	nfs serve		answers until it is stopped
 *	nfs mount DIRECTORY	mounts the directory of that server
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 2049
#define NFS 100003
#define MOUNT 100005
#define OPTIONS                                                                                                        \
	"vers=3,tcp,hard,nolock,noacl,nordirplus,addr=127.0.0.1,port=2049,mountaddr=127.0.0.1,mountvers=3,"            \
	"mountproto=tcp,mountport=2049"

static uint32_t call[4096], answer[4096];
static unsigned int used;

static void put(uint32_t word)
{
	answer[used++] = htonl(word);
}

static void put_long(uint64_t number)
{
	put(number >> 32);
	put(number);
}

/* The handle: four bytes. */
static void put_handle(void)
{
	put(4);
	put(1);
}

/* The directory (fattr3). */
static void put_attributes(void)
{
	put(2);
	put(0755);
	put(2);
	put(0);
	put(0);
	put_long(4096);
	put_long(4096);
	put_long(0);
	put_long(7);
	put_long(1);
	for (int time = 0; time < 3; time++)
		put_long((uint64_t)1 << 32);
}

static void put_optional_attributes(void)
{
	put(1);
	put_attributes();
}

static void answer_mount(uint32_t procedure)
{
	if (procedure != 1)
		return;
	put(0);
	put_handle();
	/* One kind of credentials: AUTH_SYS. */
	put(1);
	put(1);
}

static void answer_nfs(uint32_t procedure)
{
	if (!procedure)
		return;
	put(0);
	switch (procedure) {
	case 1: /* GETATTR */
		put_attributes();
		break;
	case 18: /* FSSTAT */
		put_optional_attributes();
		for (int number = 0; number < 6; number++)
			put_long(1 << 20);
		put(0);
		break;
	case 19: /* FSINFO */
		put_optional_attributes();
		for (int size = 0; size < 2; size++) {
			put(4096);
			put(4096);
			put(4096);
		}
		put(4096);
		put_long(1 << 30);
		put_long(1);
		put(0x1b);
		break;
	case 20: /* PATHCONF */
		put_optional_attributes();
		put(32);
		put(255);
		put(1);
		put(1);
		put(0);
		put(1);
		break;
	}
}

static int read_all(int file, void *into, size_t size)
{
	return recv(file, into, size, MSG_WAITALL) == (ssize_t)size ? 0 : -1;
}

static void serve_one(int file)
{
	uint32_t mark, size;

	for (;;) {
		if (read_all(file, &mark, 4))
			return;
		size = ntohl(mark) & 0x7fffffff;
		if (size > sizeof(call) || read_all(file, call, size))
			return;
		/* The record's mark, the number of the call, an accepted reply, no verifier, success. */
		used = 1;
		put(ntohl(call[0]));
		put(1);
		for (int word = 0; word < 4; word++)
			put(0);
		if (ntohl(call[3]) == MOUNT)
			answer_mount(ntohl(call[5]));
		else
			answer_nfs(ntohl(call[5]));
		answer[0] = htonl(0x80000000 | (used - 1) * 4);
		if (send(file, answer, used * 4, 0) < 0)
			return;
	}
}

static int serve(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int listening = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, 16))
		return -1;
	for (;;) {
		int file = accept(listening, NULL, NULL);

		if (file < 0)
			return -1;
		if (!fork()) {
			serve_one(file);
			_exit(0);
		}
		close(file);
	}
}

int main(int count, char **words)
{
	int status = -1;

	if (count == 2 && !strcmp(words[1], "serve"))
		status = serve();
	else if (count == 3 && !strcmp(words[1], "mount"))
		status = mount("127.0.0.1:/export", words[2], "nfs", 0, OPTIONS);
	if (status)
		perror("nfs");
	return status ? 1 : 0;
}
