"""The programs that bench/programs measures: how each is started, recognized as ready, and stopped."""
