"""Random calls on memory, and programs that are killed at random moments, plainly and under a preload library. See
../stress."""
