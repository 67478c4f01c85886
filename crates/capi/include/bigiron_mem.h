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

// bigiron_mem_populate: as each mapping needs it. Private memory that may be written becomes the process's
// own, all else is mapped as by reading.
#define BIGIRON_MEM_AS_MAPPED 0

// bigiron_mem_populate: as by reading every page. Pages of shared memory (SysV, POSIX, memfd, hugetlbfs) are
// made by that; private memory that nobody wrote to shows the page of zeros.
#define BIGIRON_MEM_READ 1

// bigiron_mem_populate: as by writing to every page, without changing it.
#define BIGIRON_MEM_WRITE 2

// Helpers work on all nodes of the machine, where no memory policy says which; else on those of
// the calling thread.
#define BIGIRON_MEM_SPREAD 256

// Huge pages are asked for before pages are made, as far as the system leaves that to programs, and memory lies
// at multiples of their size. Not an error where none are to be had.
#define BIGIRON_MEM_HUGE 512

// Kind: a System V segment; `key`, 0 for none, is one that no segment has yet.
#define BIGIRON_MEM_SYSTEM_V 1

// Kind: POSIX shared memory of the `name`, with or without the slash before it.
#define BIGIRON_MEM_POSIX 2

// Kind: shared memory that goes with its last descriptor; `name` is for /proc.
#define BIGIRON_MEM_MEMFD 3

// Kind: a new file, `name` is its path: on tmpfs or hugetlbfs it is shared memory.
#define BIGIRON_MEM_FILE 4

// Kind: private memory of this process.
#define BIGIRON_MEM_ANONYMOUS 5

// Flag: it is locked when it is made, as ISM: a System V segment by SHM_LOCK, for as long as it exists, others for
// as long as they are attached here. Without it, it is as DISM: bigiron_mem_lock locks parts on demand.
#define BIGIRON_MEM_LOCK 1

// Flag: its pages are not made; room for them is taken where the system can.
#define BIGIRON_MEM_RESERVE 2

// Flag: it is attached for reading alone.
#define BIGIRON_MEM_READ_ONLY 4

// Page size: small pages, where otherwise there might be huge ones.
#define BIGIRON_MEM_SMALL_PAGES 1

// Where pages come from: the node of the caller, or its memory policy.
#define BIGIRON_MEM_LOCAL 0

// Where pages come from: all nodes, each helper's own.
#define BIGIRON_MEM_ALL_NODES 1

// Where pages come from: the `nodes`, page by page.
#define BIGIRON_MEM_INTERLEAVE 2

// Where pages come from: the `nodes` and no others.
#define BIGIRON_MEM_BIND 3

// Memory as a whole, which this process has mapped. Any number of threads may use it at once, up to the call
// that detaches or destroys it.
struct bigiron_mem_segment;

// Called now and then while an operation runs, some parts of a second apart if there is much to do, and at its
// end. It runs in the thread that called the library, with that thread's signals as they were. What it
// returns decides: 0 goes on, anything else ends the operation with ECANCELED.
//
// It may use this library for other memory. It must return: no longjmp, no C++ exception.
typedef int (*bigiron_mem_progress)(void *data, uint64_t done, uint64_t wanted);

// What became of an operation. Set `size` before the call; the rest is written, also after an error.
struct bigiron_mem_outcome {
    // sizeof(struct bigiron_mem_outcome).
    size_t size;
    // Bytes that were done.
    uint64_t bytes;
    // Bytes that were to be done.
    uint64_t wanted;
    // Nanoseconds from begin to end.
    uint64_t elapsed_ns;
    // Nanoseconds that the helpers worked, added up: what one thread would have taken, about. 0 where that is not
    // known, as of segments.
    uint64_t busy_ns;
    // Number of threads that worked, including the caller; 0 if nothing was shared.
    uint32_t helpers;
    // 0.
    uint32_t reserved;
};

// Options of an operation. Set `size`, and leave at 0 what is to be as usual; NULL in the place of options is
// all as usual.
struct bigiron_mem_options {
    // sizeof(struct bigiron_mem_options).
    size_t size;
    // The most threads that work, the caller among them; 0: 16, or as many as there are processors. At
    // most 64.
    uint32_t helpers;
    // BIGIRON_MEM_SPREAD, BIGIRON_MEM_HUGE, both with | between them, or 0.
    uint32_t flags;
    // Less than so many bytes are done by the caller alone; 0: 8 MiB.
    size_t straight_below;
    // Bytes that a thread takes at a time, a power of two; 0: 4 MiB.
    size_t chunk;
    // Progress callback, or NULL.
    bigiron_mem_progress progress;
    // What `progress` is called with.
    void *progress_data;
    // Where to write what became of it, or NULL.
    struct bigiron_mem_outcome *outcome;
};

// What a segment is to be. Set `size`, `kind` and `bytes`, and leave at 0 what is to be as usual.
struct bigiron_mem_segment_options {
    // sizeof(struct bigiron_mem_segment_options).
    size_t size;
    // BIGIRON_MEM_SYSTEM_V, _POSIX, _MEMFD, _FILE or _ANONYMOUS.
    uint32_t kind;
    // BIGIRON_MEM_LOCK, _RESERVE, _READ_ONLY, with | between them.
    uint32_t flags;
    // Size in bytes; rounded up to whole pages.
    size_t bytes;
    // 0: transparent huge pages as far as the system has some; BIGIRON_MEM_SMALL_PAGES; or the size of pages
    // in one of the system's pools (hugetlb), 2 MiB or 1 GiB on x86-64. A file has those of its hugetlbfs.
    size_t page_size;
    // Permissions; 0: 0600.
    uint32_t mode;
    // Of a System V segment.
    int32_t key;
    // Files that lie side by side as one, which several processors give back at once; 0 and 1: one. Of POSIX
    // shared memory they are called name.0, name.1 and so on.
    uint32_t stripes;
    // BIGIRON_MEM_LOCAL, _ALL_NODES, _INTERLEAVE or _BIND.
    uint32_t numa;
    // For _INTERLEAVE and _BIND, as "0-3,6".
    const char *nodes;
    // As the kind says.
    const char *name;
    // Options, or NULL.
    const struct bigiron_mem_options *how;
    // Where to write what an error was about and what to do, or NULL.
    char *error_text;
    // Bytes there, of which a NUL takes one.
    size_t error_text_size;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes the pages of memory and maps them, so that no later touch waits.
//
// The memory is grown to whole pages, and may span several mappings. Contents do not change. After an
// error a part may be populated.
//
// EINVAL: the kernel is older than 5.14, a mapping cannot be populated (of a device), or an option is
// not allowed. ENOMEM: nothing is mapped in a part of it, or memory ended. EFAULT: touching a page would
// raise a signal. EHWPOISON: a page has a hardware error. ECANCELED: the progress function said so.
//
// The caller's part:
// `options` is NULL or a struct with its size set.
int bigiron_mem_populate(void *address, size_t length, int access, const struct bigiron_mem_options *options);

// Locks memory, as mlock(2): it is made, and stays in memory until it is unlocked or unmapped.
//
// Errors are those of mlock: ENOMEM for memory that is not mapped and beyond RLIMIT_MEMLOCK, EPERM where
// that is 0, EAGAIN where a part could not be made. And EINVAL for options that are not allowed; ECANCELED when
// the progress function said so: what was made stays locked, the rest is locked when it is touched.
//
// The caller's part:
// `options` is NULL or a struct with its size set.
int bigiron_mem_lock(const void *address,
                     size_t length,
                     const struct bigiron_mem_options *options);

// Unlocks memory, as munlock(2): ENOMEM for memory that is not mapped.
int bigiron_mem_unlock(const void *address, size_t length);

// Gives the pages of memory back, and leaves it mapped (MADV_DONTNEED). Private anonymous memory reads as zeros
// then; private memory of a file as the file; shared memory keeps its contents, only this process's page tables go.
//
// EINVAL: `address` is no multiple of the page size. ENOMEM: nothing is mapped in a part of it.
//
// The caller's part:
// Nobody uses the memory meanwhile, or minds losing it. `options` is NULL or a struct with its size set.
int bigiron_mem_release(void *address,
                        size_t length,
                        const struct bigiron_mem_options *options);

// Unmaps memory, as munmap(2): helpers give its pages back before. No progress is told.
//
// EINVAL: `address` is no multiple of the page size, or `length` is 0. ENOMEM: a mapping would be cut in two,
// and the process has as many as it may; it is all there still.
//
// The caller's part:
// Nobody uses the memory any more. `options` is NULL or a struct with its size set.
int bigiron_mem_unmap(void *address, size_t length, const struct bigiron_mem_options *options);

// Looks at `samples` pages of memory, spread over it, and counts in `pages_of_node`, which has `nodes` places, from
// which nodes of the machine they come; in `absent`, which may be NULL, those that are not there.
//
// ERANGE: a page comes from a node beyond the places. ENOSYS: the kernel knows no nodes.
//
// The caller's part:
// `pages_of_node` has `nodes` places; `absent` is NULL or has one.
int bigiron_mem_placement(const void *address,
                          size_t length,
                          size_t samples,
                          uint64_t *pages_of_node,
                          size_t nodes,
                          uint64_t *absent);

// Makes a segment as `options` say, with all its pages, maps it and puts it into `segment`.
//
// What limits do not allow fails before anything is made; what fails later leaves nothing. A name appears when the
// memory is whole. Errors are those of shmget(2), shm_open(3), memfd_create(2), mmap(2), mlock(2), and: EINVAL
// for what makes no sense, ENOMEM and ENOSPC where there is too little room, ECANCELED. `error_text` of the options
// says more.
//
// The caller's part:
// `options` is a struct with its size set, and what it points to is there; `segment` may be written.
int bigiron_mem_segment_create(const struct bigiron_mem_segment_options *options,
                               struct bigiron_mem_segment **segment);

// Maps memory that exists and puts it into `segment`. `what` is the id of a System V segment, its key as
// "0x...", the name of POSIX shared memory ("/name"), striped too, or the path of a file; /proc/self/fd/N
// is what a descriptor is of. Of `options`, which may be NULL, count page_size, BIGIRON_MEM_READ_ONLY,
// BIGIRON_MEM_LOCK, BIGIRON_MEM_RESERVE (its pages are not made), and `how`.
//
// Errors are those of shmat(2), open(2), mmap(2) and mlock(2); ENOENT where there is nothing of that name.
//
// The caller's part:
// `what` is a text or NULL, `options` NULL or a struct with its size set; `segment` may be written.
int bigiron_mem_segment_attach(const char *what,
                               const struct bigiron_mem_segment_options *options,
                               struct bigiron_mem_segment **segment);

// Where a segment is in this process; NULL for NULL.
//
// The caller's part:
// `segment` is NULL or was made or attached by this library.
void *bigiron_mem_segment_address(const struct bigiron_mem_segment *segment);

// Bytes of a segment, whole pages; 0 for NULL.
//
// The caller's part:
// As for bigiron_mem_segment_address.
size_t bigiron_mem_segment_bytes(const struct bigiron_mem_segment *segment);

// The id of a System V segment; or an error, ENOENT for one of another kind.
//
// The caller's part:
// As for bigiron_mem_segment_address.
int bigiron_mem_segment_id(const struct bigiron_mem_segment *segment);

// The descriptor of a segment of files or of a memfd, close-on-exec, for as long as the segment is attached. Of a
// striped one `stripe` counts from 0. Or an error, ENOENT where there is none.
//
// The caller's part:
// As for bigiron_mem_segment_address.
int bigiron_mem_segment_descriptor(const struct bigiron_mem_segment *segment,
                                   size_t stripe);

// Locks a segment, as mlock(2), all its pages made before by helpers. That lasts until it is unlocked, detached or
// destroyed. After an error it is unlocked.
//
// The caller's part:
// `segment` as for bigiron_mem_segment_address, `options` as for bigiron_mem_populate.
int bigiron_mem_segment_lock(struct bigiron_mem_segment *segment,
                             const struct bigiron_mem_options *options);

// Unlocks a segment, which BIGIRON_MEM_LOCK or bigiron_mem_segment_lock has locked.
//
// The caller's part:
// As for bigiron_mem_segment_address.
int bigiron_mem_segment_unlock(struct bigiron_mem_segment *segment);

// Ends the use of a segment here, and frees `segment`, also after an error. What has an id or a name stays in the
// system, with its contents; a memfd and anonymous memory are gone with their last user. Nothing for NULL.
//
// The caller's part:
// As for bigiron_mem_segment_address; nobody uses the memory, nor `segment`, any more.
int bigiron_mem_segment_detach(struct bigiron_mem_segment *segment);

// Ends the use of a segment here, removes it from the system, and frees `segment`, also after an error. Others who
// have it attached keep it as it is. Nothing for NULL. With options that are not allowed it is only detached.
//
// `reaper` is NULL, or the absolute path of the program bigiron, which then frees what one processor must free, while
// the caller goes on; where that is not safe, the caller waits.
//
// The caller's part:
// As for bigiron_mem_segment_detach; `reaper` is NULL or a text, `options` as for bigiron_mem_populate.
int bigiron_mem_segment_destroy(struct bigiron_mem_segment *segment,
                                const char *reaper,
                                const struct bigiron_mem_options *options);

// Removes memory that this process has not attached: `what` as for bigiron_mem_segment_attach, `reaper` as for
// bigiron_mem_segment_destroy. Of files only those of tmpfs and hugetlbfs.
//
// The caller's part:
// `what` is a text or NULL, the others as for bigiron_mem_segment_destroy.
int bigiron_mem_remove(const char *what,
                       const char *reaper,
                       const struct bigiron_mem_options *options);

// Makes all pages of memory or of a file that exists: of shared memory those that are missing, of a file on a disk
// those of the page cache. Nothing is written. `what` as for bigiron_mem_segment_attach.
//
// The caller's part:
// `what` is a text or NULL, `options` as for bigiron_mem_populate.
int bigiron_mem_prewarm(const char *what,
                        const struct bigiron_mem_options *options);

// The library's version, as "0.1.0". The text is constant.
const char *bigiron_mem_version(void);

// What an error of this library means, and what to do about it; `error` is what a function
// gave, negative or not. The text is constant: it is never freed, and any thread may ask.
const char *bigiron_mem_strerror(int error);

// Whether this kernel and machine can do what the library is for: 0, or the error of a page that was
// populated for trial.
int bigiron_mem_works(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* BIGIRON_MEM_H */
