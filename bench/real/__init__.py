"""The real programs of bench/programs: how each is started, when it is ready, how it is stopped."""
