"""Runs third-party tests of memory and process calls, with and without a preload library. See ../suites."""
