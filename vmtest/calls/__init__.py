"""Runs third-party tests of memory and process calls, plainly and under a preload library. See ../suites."""
