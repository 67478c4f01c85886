/* Replaces glibc's internal header: one value for all threads, made by the first thread that needs it. */
#ifndef ALLOCATE_ONCE_H
#define ALLOCATE_ONCE_H
#include <stdlib.h>

static inline void *allocate_once(void **place, void *(*allocate)(void *), void (*deallocate)(void *, void *),
								  void *closure)
{
	void *there = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (there)
		return there;
	void *made = allocate(closure);
	if (!made || __atomic_compare_exchange_n(place, &there, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	if (deallocate)
		deallocate(closure, made);
	else
		free(made);
	return there;
}
#endif
