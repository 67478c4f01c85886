/* A library that does nothing: what differs under it too is the doing of LD_PRELOAD. As every library of Rust's it has
   thread-local memory, for which threads allocate more, and needs libgcc_s. */
extern __thread int bigiron_suites_empty;
__thread int bigiron_suites_empty = 1;
