"""Light work for tests: small pictures, and a helper for files that gives its time to no one.

On a busy machine the helper would get none, and a film would take a minute.
"""

from backends.demo import art, film
from backends.media.helper import process

EAGER = (
    "-P",
    "-c",
    "from backends.media.helper import worker; worker._NICE = 0; worker.main()",
)
CANVAS = 192  # longest side in pixels; there are hundreds of pictures


def lighten() -> None:
    """Make the work of this process light, for as long as it lives."""
    process.PROGRAM = EAGER
    art.CANVAS = CANVAS
    film.USUAL_SIZE = (96, 64)
