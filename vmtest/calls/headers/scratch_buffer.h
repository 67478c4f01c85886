/* Replaces glibc's internal header: a buffer that starts on the stack and grows on the heap. */
#ifndef SCRATCH_BUFFER_H
#define SCRATCH_BUFFER_H
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct scratch_buffer {
	void *data;
	size_t length;
	union {
		max_align_t align;
		char bytes[1024];
	} space;
};

static inline void scratch_buffer_init(struct scratch_buffer *buffer)
{
	buffer->data = buffer->space.bytes;
	buffer->length = sizeof buffer->space;
}

static inline void scratch_buffer_free(struct scratch_buffer *buffer)
{
	if (buffer->data != buffer->space.bytes)
		free(buffer->data);
}

static inline bool scratch_buffer_resize(struct scratch_buffer *buffer, size_t length, size_t kept)
{
	void *data = length < buffer->length ? NULL : malloc(length);
	if (data)
		memcpy(data, buffer->data, kept);
	scratch_buffer_free(buffer);
	if (!data) {
		scratch_buffer_init(buffer);
		errno = ENOMEM;
		return false;
	}
	buffer->data = data;
	buffer->length = length;
	return true;
}

static inline bool scratch_buffer_grow(struct scratch_buffer *buffer)
{
	return scratch_buffer_resize(buffer, 2 * buffer->length, 0);
}

static inline bool scratch_buffer_grow_preserve(struct scratch_buffer *buffer)
{
	return scratch_buffer_resize(buffer, 2 * buffer->length, buffer->length);
}

static inline bool scratch_buffer_set_array_size(struct scratch_buffer *buffer, size_t count, size_t size)
{
	size_t wanted;
	if (__builtin_mul_overflow(count, size, &wanted))
		wanted = SIZE_MAX;
	return wanted <= buffer->length || scratch_buffer_resize(buffer, wanted, 0);
}
#endif
