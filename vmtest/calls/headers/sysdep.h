/* Replaces glibc's internal header: system calls by the public function. */
#ifndef SYSDEP_H
#define SYSDEP_H
#include <bits/types/struct_timespec.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define __timespec64 timespec
#define INLINE_SYSCALL_CALL(name, ...) syscall(__NR_##name, ##__VA_ARGS__)
#define INTERNAL_SYSCALL_CALL(name, ...)                                                                              \
	({                                                                                                                \
		long stub_result = syscall(__NR_##name, ##__VA_ARGS__);                                                       \
		stub_result == -1 ? -(long)errno : stub_result;                                                               \
	})
#define INTERNAL_SYSCALL_ERROR_P(value) ((unsigned long)(value) > -4096UL)
#define INTERNAL_SYSCALL_ERRNO(value) (-(value))
#endif
