/* A library without functions: differences under it are caused by LD_PRELOAD itself. Like every Rust library, it has
 * thread-local memory, which enlarges threads, and requires libgcc_s. */
extern __thread int bigiron_suites_empty;
__thread int bigiron_suites_empty = 1;
