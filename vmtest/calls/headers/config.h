/* Stands for what glibc's configure would write: the tests that are used here need none of it. */
