"""Random calls on memory, and programs killed at random moments; plain and under a preload library. See ../stress."""
