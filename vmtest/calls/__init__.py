"""Other people's tests of memory and process calls, run plainly and under a preload library. See ../suites."""
