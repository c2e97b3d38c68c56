"""How many files, connections among them, this process may have open at once."""

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_UNBOUNDED = 4096  # used if the limit is unknown


def open_files() -> int:
    """Return how many files, connections among them, this process may have open at once."""
    if resource is None:
        return _UNBOUNDED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNBOUNDED if soft == resource.RLIM_INFINITY else soft
