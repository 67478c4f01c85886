"""The two kinds of failures to make a vmcore. A caller that runs tests must distinguish them."""


class LabError(Exception):
    """An unexpected failure: exit status 1."""


class Unavailable(LabError):
    """This machine lacks a tool, a package or the network: a test may be skipped with this reason. Exit status 3."""
