"""Dumps with random changes, given to every command within limits of time and memory. See ../mutations."""
