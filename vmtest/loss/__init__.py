"""Dumps, saves and repairs that are killed, or whose disks fail: nothing readable is lost. See ../losses."""
