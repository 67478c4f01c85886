"""The two kinds of failure when a vmcore is made. Callers that run tests must distinguish them."""


class LabError(Exception):
    """An unexpected failure: exit status 1."""


class Unavailable(LabError):
    """This machine lacks a tool, a package or the network: a test may be skipped. Exit status 3."""
