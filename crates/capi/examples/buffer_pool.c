/* The buffer pool of a database: populated by all processors, and locked if limits allow it.
 *
 *     cc buffer_pool.c -o buffer_pool $(pkg-config --cflags --libs bigiron-mem)
 *     ./buffer_pool 4096
 */
#include <bigiron_mem.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int show_progress(void *data, uint64_t done, uint64_t wanted)
{
    (void)data;
    fprintf(stderr, "buffer pool: %llu of %llu MiB\n", (unsigned long long)(done >> 20), (unsigned long long)(wanted >> 20));
    return 0; /* any other value cancels the operation */
}

int main(int argc, char **argv)
{
    size_t mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
    char text[256] = "";
    struct bigiron_mem_segment *pool = NULL;

    struct bigiron_mem_outcome outcome = {.size = sizeof outcome};
    struct bigiron_mem_options how = {.size = sizeof how, .progress = show_progress, .outcome = &outcome};
    struct bigiron_mem_segment_options options = {
        .size = sizeof options,
        .kind = BIGIRON_MEM_SYSTEM_V,
        .flags = BIGIRON_MEM_LOCK,
        .bytes = mebibytes << 20,
        .how = &how,
        .error_text = text,
        .error_text_size = sizeof text,
    };

    int error = bigiron_mem_segment_create(&options, &pool);
    if (error == -ENOMEM || error == -EPERM) {
        fprintf(stderr, "buffer pool: not locked: %s\n", text);
        options.flags = 0;
        error = bigiron_mem_segment_create(&options, &pool);
    }
    if (error != 0) {
        fprintf(stderr, "buffer pool: %s\n", text[0] != '\0' ? text : bigiron_mem_strerror(error));
        return 1;
    }

    /* Children find it mapped after fork; others attach it by its id. */
    char *buffers = bigiron_mem_segment_address(pool);
    memset(buffers, 0, 4096);
    printf("segment %d: %zu MiB by %u threads in %llu ms\n", bigiron_mem_segment_id(pool),
           bigiron_mem_segment_bytes(pool) >> 20, outcome.helpers, (unsigned long long)(outcome.elapsed_ns / 1000000));

    error = bigiron_mem_segment_destroy(pool, NULL, NULL);
    if (error != 0) {
        fprintf(stderr, "buffer pool: cannot be removed: %s\n", bigiron_mem_strerror(error));
        return 1;
    }
    return 0;
}
