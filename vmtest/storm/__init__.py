"""Random calls on memory, and programs that are killed in the middle, plainly and under a preload library. See ../stress."""
