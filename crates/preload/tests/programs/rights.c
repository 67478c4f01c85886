/* Populates and frees memory, and prints whether it has more rights than its user. */
#include "common.h"
#include <sys/auxv.h>

int main(void)
{
	size_t length = (size_t)32 << 20;
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED || munmap(memory, length) != 0)
		return 1;
	printf("AT_SECURE %lu\n", getauxval(AT_SECURE));
	return 0;
}
