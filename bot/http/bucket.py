"""A token bucket: allows a burst, and then a fixed rate. Pure."""


class Bucket:
    """Allows `burst` events at once, and `per_s` events per second after that."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._level = float(burst)
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Return whether another event is allowed at `now`, in seconds of any steady clock."""
        self._level = min(self._burst, self._level + (now - self._at) * self._per_s)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True
