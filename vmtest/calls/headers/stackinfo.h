/* Replaces glibc's internal header: the direction of stack growth on x86-64. */
#ifndef STACKINFO_H
#define STACKINFO_H
#include <elf.h>
#define _STACK_GROWS_DOWN 1
#define DEFAULT_STACK_PERMS (PF_R | PF_W | PF_X)
#endif
