/* Replaces the output of glibc's configure, which these tests do not need. */
