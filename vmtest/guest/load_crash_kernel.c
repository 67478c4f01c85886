/* Loads the capture kernel: load_crash_kernel VMLINUZ INITRD COMMAND_LINE
 *
 * kexec_file_load(2) leaves the ELF headers of /proc/vmcore, the memory map and the purgatory to the running kernel,
 * so the guest needs no kexec-tools. The flag KEXEC_FILE_ON_CRASH makes it the kernel that runs after a panic. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kexec.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: load_crash_kernel VMLINUZ INITRD COMMAND_LINE\n");
		return 2;
	}
	int kernel = open(argv[1], O_RDONLY | O_CLOEXEC);
	int initrd = open(argv[2], O_RDONLY | O_CLOEXEC);

	/* The length of the command line counts its final NUL. */
	if (kernel < 0 || initrd < 0
	    || syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3], KEXEC_FILE_ON_CRASH) != 0) {
		perror("bigiron-vmtest: load_crash_kernel");
		return 1;
	}
	return 0;
}
