/* Creation, locking and release of large memory by helper threads. docs/c-library.md shows its use.
 *
 * Functions return 0, or an errno(3) value as a negative number; they leave errno unchanged. All
 * functions are thread-safe, as long as no object is used after or during the call that ends it. The
 * only callback is the progress function, called in the thread of the caller. Helper threads exist
 * for the duration of one call: none is left behind, and none exists in a child of fork.
 *
 * Written by cbindgen from the library's sources; change those instead.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef BIGIRON_MEM_H
#define BIGIRON_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Access of bigiron_mem_populate: as each mapping requires. Writable private memory gets pages
// of its own; all other memory is mapped as by reads.
#define BIGIRON_MEM_AS_MAPPED 0

// Access of bigiron_mem_populate: as by a read of every page. This creates the pages of shared
// memory (SysV, POSIX, memfd, hugetlbfs); unwritten private memory maps the zero page.
#define BIGIRON_MEM_READ 1

// Access of bigiron_mem_populate: as by a write to every page, without changing it.
#define BIGIRON_MEM_WRITE 2

// Helpers run on all nodes of the machine, unless a memory policy determines the nodes.
// Without this flag they run on the nodes of the calling thread.
#define BIGIRON_MEM_SPREAD 256

// Requests huge pages before the population, as far as the system leaves the choice to
// programs, and the memory is aligned to their size. It is not an error if there are none.
#define BIGIRON_MEM_HUGE 512

// Kind: a System V segment. `key` is 0 for a private segment, or a key that no segment has.
#define BIGIRON_MEM_SYSTEM_V 1

// Kind: POSIX shared memory called `name`, with or without a leading slash.
#define BIGIRON_MEM_POSIX 2

// Kind: shared memory that lives as long as its last descriptor; `name` is only shown in
// /proc.
#define BIGIRON_MEM_MEMFD 3

// Kind: a new file with the path `name`; on tmpfs or hugetlbfs it is shared memory.
#define BIGIRON_MEM_FILE 4

// Kind: private memory of this process.
#define BIGIRON_MEM_ANONYMOUS 5

// Flag: the segment is locked on creation, as ISM: a System V segment by SHM_LOCK as long as
// it exists, others as long as they are attached in this process. Without this flag it is as
// DISM: bigiron_mem_lock locks parts on demand.
#define BIGIRON_MEM_LOCK 1

// Flag: the pages are not populated; space for them is reserved if the system supports it.
#define BIGIRON_MEM_RESERVE 2

// Flag: the segment is attached read-only.
#define BIGIRON_MEM_READ_ONLY 4

// Page size: small pages, where otherwise huge ones could be used.
#define BIGIRON_MEM_SMALL_PAGES 1

// NUMA placement: the caller's node, or its memory policy.
#define BIGIRON_MEM_LOCAL 0

// NUMA placement: all nodes, each helper on its own.
#define BIGIRON_MEM_ALL_NODES 1

// NUMA placement: interleaved over the nodes of `nodes`.
#define BIGIRON_MEM_INTERLEAVE 2

// NUMA placement: only the nodes of `nodes`.
#define BIGIRON_MEM_BIND 3

// A segment that this process has mapped. Any number of threads may use it concurrently, until
// the call that detaches or destroys it.
struct bigiron_mem_segment;

// Progress callback, called at intervals of a fraction of a second during long operations, and
// at the end. It runs in the calling thread, with that thread's original signal mask. A return
// value of 0 continues the operation; any other value ends it with ECANCELED.
//
// The callback may use this library for other memory. It must return: no longjmp, no C++
// exception.
typedef int (*bigiron_mem_progress)(void *data, uint64_t done, uint64_t wanted);

// Outcome of an operation. Set `size` before the call. The other fields are written by the
// call, also after an error.
struct bigiron_mem_outcome {
    // sizeof(struct bigiron_mem_outcome).
    size_t size;
    // Number of bytes processed.
    uint64_t bytes;
    // Number of bytes to process.
    uint64_t wanted;
    // Duration in nanoseconds.
    uint64_t elapsed_ns;
    // Sum of the helpers' working time in nanoseconds: approximately the time that one thread
    // would have taken. 0 if unknown, as for segments.
    uint64_t busy_ns;
    // Number of threads that worked, including the caller; 0 if the work was not shared.
    uint32_t helpers;
    // Reserved; 0.
    uint32_t reserved;
};

// Options of an operation. Set `size`; fields that are 0 select the default. NULL instead of
// options selects all defaults.
struct bigiron_mem_options {
    // sizeof(struct bigiron_mem_options).
    size_t size;
    // Maximum number of threads including the caller; 0: 16, or the number of processors if
    // lower. At most 64.
    uint32_t helpers;
    // BIGIRON_MEM_SPREAD, BIGIRON_MEM_HUGE, both combined by |, or 0.
    uint32_t flags;
    // Size in bytes below which the caller works alone; 0: 8 MiB.
    size_t straight_below;
    // Number of bytes that a thread takes at a time, a power of two; 0: 4 MiB.
    size_t chunk;
    // Progress callback, or NULL.
    bigiron_mem_progress progress;
    // Argument of `progress`.
    void *progress_data;
    // Receives the outcome; may be NULL.
    struct bigiron_mem_outcome *outcome;
};

// Options of a segment. Set `size`, `kind` and `bytes`; other fields that are 0 select the
// default.
struct bigiron_mem_segment_options {
    // sizeof(struct bigiron_mem_segment_options).
    size_t size;
    // BIGIRON_MEM_SYSTEM_V, _POSIX, _MEMFD, _FILE or _ANONYMOUS.
    uint32_t kind;
    // BIGIRON_MEM_LOCK, _RESERVE and _READ_ONLY, combined by |.
    uint32_t flags;
    // Size in bytes; rounded up to whole pages.
    size_t bytes;
    // Page size. 0: transparent huge pages as far as available; BIGIRON_MEM_SMALL_PAGES; or
    // the page size of one of the system's pools (hugetlb), 2 MiB or 1 GiB on x86-64. A file
    // uses that of its hugetlbfs.
    size_t page_size;
    // Permissions; 0: 0600.
    uint32_t mode;
    // Key of a System V segment.
    int32_t key;
    // Number of files that form one contiguous segment, which several processors can free
    // concurrently; 0 and 1: one file. For POSIX shared memory their names are name.0, name.1
    // and so on.
    uint32_t stripes;
    // BIGIRON_MEM_LOCAL, _ALL_NODES, _INTERLEAVE or _BIND.
    uint32_t numa;
    // Nodes for _INTERLEAVE and _BIND, such as "0-3,6".
    const char *nodes;
    // Name; its meaning depends on the kind.
    const char *name;
    // Options of the operation, or NULL.
    const struct bigiron_mem_options *how;
    // Buffer for a text with the cause of an error and its remedy, or NULL.
    char *error_text;
    // Size of the buffer in bytes, including the terminating NUL.
    size_t error_text_size;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Populates memory, so that later accesses cause no page faults.
//
// The range is extended to whole pages, and may span several mappings. Contents do not change.
// After an error a part may be populated.
//
// EINVAL: the kernel is older than 5.14, a mapping cannot be populated (device memory), or an
// option is not allowed. ENOMEM: a part of the range is not mapped, or memory is exhausted.
// EFAULT: access to a page would raise a signal. EHWPOISON: a page has a hardware error.
// ECANCELED: the progress function ended the operation.
//
// Requirements:
// `options` must be NULL or point to a struct with its size set.
int bigiron_mem_populate(void *address, size_t length, int access, const struct bigiron_mem_options *options);

// Locks memory, as mlock(2): populates it, and keeps it in memory until it is unlocked or
// unmapped.
//
// Errors are those of mlock: ENOMEM for memory that is not mapped or exceeds RLIMIT_MEMLOCK,
// EPERM if that limit is 0, EAGAIN if a part cannot be populated. Also EINVAL for options that
// are not allowed, and ECANCELED if the progress function ended the operation: the populated
// part stays locked, and the rest is locked when it is accessed.
//
// Requirements:
// `options` must be NULL or point to a struct with its size set.
int bigiron_mem_lock(const void *address, size_t length, const struct bigiron_mem_options *options);

// Unlocks memory, as munlock(2): ENOMEM for memory that is not mapped.
int bigiron_mem_unlock(const void *address, size_t length);

// Frees the pages of memory and keeps the mapping (MADV_DONTNEED). Private anonymous memory
// then reads as zeros, and private memory of a file as the file. Shared memory keeps its
// contents; only the page tables of this process are removed.
//
// EINVAL: `address` is not a multiple of the page size. ENOMEM: a part of the range is not
// mapped.
//
// Requirements:
// The contents of the memory must not be needed, and not be accessed during the call.
// `options` must be NULL or point to a struct with its size set.
int bigiron_mem_release(void *address, size_t length, const struct bigiron_mem_options *options);

// Unmaps memory, as munmap(2), after helpers have freed its pages. Progress is not reported.
//
// EINVAL: `address` is not a multiple of the page size, or `length` is 0. ENOMEM: a mapping
// would be split, and the process has the maximum number of mappings; the memory is then
// unchanged.
//
// Requirements:
// The memory must no longer be used. `options` must be NULL or point to a struct with its size
// set.
int bigiron_mem_unmap(void *address, size_t length, const struct bigiron_mem_options *options);

// Samples `samples` pages spread over a range of memory, and counts the pages of each NUMA
// node in `pages_of_node`, which has `nodes` elements. `absent`, which may be NULL, receives
// the number of pages that are not present.
//
// ERANGE: a page is on a node beyond the array. ENOSYS: the kernel does not support NUMA.
//
// Requirements:
// `pages_of_node` must have `nodes` elements; `absent` must be NULL or point to one.
int bigiron_mem_placement(const void *address,
                          size_t length,
                          size_t samples,
                          uint64_t *pages_of_node,
                          size_t nodes,
                          uint64_t *absent);

// Creates a segment as described by `options`, populates and maps it, and stores it in
// `segment`.
//
// Requests beyond limits fail before anything is created; a later failure leaves nothing
// behind. The name appears only when the memory is complete. Errors are those of shmget(2),
// shm_open(3), memfd_create(2), mmap(2) and mlock(2), and: EINVAL for invalid options, ENOMEM
// and ENOSPC for too little space, ECANCELED. The `error_text` of the options has the details.
//
// Requirements:
// `options` must point to a struct with its size set and valid pointers; `segment` must be
// writable.
int bigiron_mem_segment_create(const struct bigiron_mem_segment_options *options,
                               struct bigiron_mem_segment **segment);

// Maps existing memory and stores it in `segment`. `what` is the id of a System V segment, its
// key as "0x...", the name of POSIX shared memory ("/name"), which may be striped, or the path
// of a file; /proc/self/fd/N is the file of a descriptor. Of `options`, which may be NULL,
// page_size, BIGIRON_MEM_READ_ONLY, BIGIRON_MEM_LOCK, BIGIRON_MEM_RESERVE (the pages are not
// populated) and `how` are used.
//
// Errors are those of shmat(2), open(2), mmap(2) and mlock(2); ENOENT if nothing has this
// name.
//
// Requirements:
// `what` must be a string or NULL, `options` NULL or a struct with its size set; `segment`
// must be writable.
int bigiron_mem_segment_attach(const char *what,
                               const struct bigiron_mem_segment_options *options,
                               struct bigiron_mem_segment **segment);

// Returns the address of a segment in this process; NULL for NULL.
//
// Requirements:
// `segment` must be NULL, or created or attached by this library.
void *bigiron_mem_segment_address(const struct bigiron_mem_segment *segment);

// Returns the size of a segment in bytes, a multiple of the page size; 0 for NULL.
//
// Requirements:
// As for bigiron_mem_segment_address.
size_t bigiron_mem_segment_bytes(const struct bigiron_mem_segment *segment);

// Returns the id of a System V segment, or an error: ENOENT for other kinds.
//
// Requirements:
// As for bigiron_mem_segment_address.
int bigiron_mem_segment_id(const struct bigiron_mem_segment *segment);

// Returns the descriptor of a memfd or of a segment's file, or an error: ENOENT if there is
// none. The descriptor is close-on-exec, and valid as long as the segment is attached.
// `stripe` selects the file of a striped segment, counted from 0.
//
// Requirements:
// As for bigiron_mem_segment_address.
int bigiron_mem_segment_descriptor(const struct bigiron_mem_segment *segment, size_t stripe);

// Locks a segment, as mlock(2), after helpers have populated all its pages. The lock lasts
// until the segment is unlocked, detached or destroyed. After an error the segment is not
// locked.
//
// Requirements:
// `segment` as for bigiron_mem_segment_address, `options` as for bigiron_mem_populate.
int bigiron_mem_segment_lock(struct bigiron_mem_segment *segment, const struct bigiron_mem_options *options);

// Unlocks a segment that was locked by BIGIRON_MEM_LOCK or bigiron_mem_segment_lock.
//
// Requirements:
// As for bigiron_mem_segment_address.
int bigiron_mem_segment_unlock(struct bigiron_mem_segment *segment);

// Detaches a segment from this process, and frees `segment`, also after an error. Memory with
// an id or a name stays in the system, with its contents; a memfd and anonymous memory are
// freed with their last user. Does nothing for NULL.
//
// Requirements:
// As for bigiron_mem_segment_address; the memory and `segment` must no longer be used.
int bigiron_mem_segment_detach(struct bigiron_mem_segment *segment);

// Detaches a segment from this process, removes it from the system, and frees `segment`, also
// after an error. Other processes that have attached it keep it unchanged. Does nothing for
// NULL. With options that are not allowed the segment is only detached.
//
// `reaper` is NULL, or the absolute path of the program bigiron, which then frees the part
// that only one processor can free, while the caller continues. If that is not safe, the
// caller waits.
//
// Requirements:
// As for bigiron_mem_segment_detach; `reaper` must be NULL or a string, `options` as for
// bigiron_mem_populate.
int bigiron_mem_segment_destroy(struct bigiron_mem_segment *segment,
                                const char *reaper,
                                const struct bigiron_mem_options *options);

// Removes memory that this process has not attached. `what` is as for
// bigiron_mem_segment_attach, `reaper` as for bigiron_mem_segment_destroy. Files are only
// removed from tmpfs and hugetlbfs.
//
// Requirements:
// `what` must be a string or NULL; the others as for bigiron_mem_segment_destroy.
int bigiron_mem_remove(const char *what, const char *reaper, const struct bigiron_mem_options *options);

// Populates existing memory or an existing file: the missing pages of shared memory, or the
// page cache of a file on disk. Nothing is written. `what` is as for
// bigiron_mem_segment_attach.
//
// Requirements:
// `what` must be a string or NULL, `options` as for bigiron_mem_populate.
int bigiron_mem_prewarm(const char *what, const struct bigiron_mem_options *options);

// Returns the library's version, such as "0.1.0". The string is constant.
const char *bigiron_mem_version(void);

// Returns the meaning of an error of this library, with its remedy. `error` is the return
// value of a function, negative or not. The string is constant: it is never freed, and the
// function is thread-safe.
const char *bigiron_mem_strerror(int error);

// Checks that the kernel and the machine support this library: returns 0, or the error of a
// page that was populated as a test.
int bigiron_mem_works(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BIGIRON_MEM_H */
