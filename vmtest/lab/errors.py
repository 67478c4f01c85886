"""The two ways a vmcore can fail to be made. A caller that runs tests must tell them apart."""


class LabError(Exception):
    """Something went wrong that ought to work: exit status 1."""


class Unavailable(LabError):
    """This machine lacks a tool, a package or the network: a test may be skipped with this reason. Exit status 3."""
