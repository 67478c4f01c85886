/* munmap keeps memory that others use: files, memfds, and memory shared with a child or copied for it. */
#include "say.h"

static char *at;
static size_t size_now;
static int gates[2][2];

/* The child waits until its parent has unmapped the memory, and then prints what it reads. */
static void child_reads(void)
{
	char byte;
	write(gates[0][1], "x", 1);
	if (read(gates[1][0], &byte, 1) != 1)
		stop("read");
	SAY(wrong(at, size_now, 1));
	SAY(munmap(at, size_now));
}

static void with_child(const char *what, int flags)
{
	printf("%s: ", what);
	at = map(size_now, RW, flags);
	fill(at, size_now, 1);
	fflush(stdout);
	if (pipe(gates[0]) || pipe(gates[1]))
		stop("pipe");
	pid_t child = fork();
	if (child == 0) {
		child_reads();
		exit(0);
	}
	char byte;
	SAY(read(gates[0][0], &byte, 1));
	SAY(munmap(at, size_now));
	fflush(stdout);
	write(gates[1][1], "x", 1);
	int status;
	waitpid(child, &status, 0);
	SAY(status);
	for (int i = 0; i < 4; i++)
		close(gates[i / 2][i % 2]);
}

static void of_file(const char *what, int file)
{
	printf("%s: ", what);
	if (file < 0 || ftruncate(file, size_now))
		stop("file");
	char *one = mmap(NULL, size_now, RW, MAP_SHARED | MAP_POPULATE, file, 0);
	char *two = mmap(NULL, size_now, RW, MAP_SHARED, file, 0);
	char *private = mmap(NULL, size_now, RW, MAP_PRIVATE | MAP_POPULATE, file, 0);
	fill(one, size_now, 2);
	fill(private, size_now / 2, 3);
	SAY(munmap(one, size_now));
	SAY(wrong(two, size_now, 2));
	SAY(munmap(two, size_now));
	SAY(wrong(private, size_now / 2, 3));
	SAY(munmap(private, size_now));
	one = mmap(NULL, size_now, PROT_READ, MAP_SHARED, file, 0);
	SAY(wrong(one, size_now, 2));
	SAY(munmap(one, size_now));
	SAY(lseek(file, 0, SEEK_END) == (off_t)size_now);
	close(file);
}

int main(void)
{
	for (size_t i = 0; i < COUNT(sizes); i++) {
		size_now = sizes[i];
		printf("-- %zu KiB\n", size_now / KB);
		with_child("shared with a child", SHARED);
		with_child("copied for a child", ANON);
		of_file("a memfd", memfd_create("file", 0));
		of_file("a file", open("file", O_RDWR | O_CREAT | O_TRUNC, 0600));
		int shm = shm_open("/shared", O_RDWR | O_CREAT | O_EXCL, 0600);
		SAY(shm_unlink("/shared"));
		of_file("an unlinked one of shm_open", shm);
		unlink("file");
	}
	return 0;
}
