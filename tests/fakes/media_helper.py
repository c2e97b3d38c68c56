"""Light work for tests: small images, and a helper for files with normal priority.

On a busy machine a helper of low priority would get no time, and a video would take a minute.
"""

from backends.demo import images, painting
from backends.media.helper import process, worker
from backends.media.helper.process import MediaError
from backends.media.helper.protocol import Answer, Faulty, Order

EAGER = (
    "-P",
    "-c",
    "from backends.media.helper import worker; worker._NICE = 0; worker.main()",
)
CANVAS = 192  # longest side in pixels; there are hundreds of images


def lighten() -> None:
    """Make the work of this process light, for as long as it lives."""
    process.PROGRAM = EAGER
    painting.CANVAS = CANVAS
    images.USUAL_SIZE = (96, 64)


async def here(order: Order, data: bytes, *, wall_s: float = 0) -> tuple[Answer, bytes]:
    """Replace `process.ask`: carry an order out in this process, without the time of a start."""
    order = Order.read(order.line())
    try:
        answer, made = worker._work(order)(order, data)
    except Faulty as fault:
        raise MediaError(str(fault), fault=str(fault)) from fault
    except Exception as error:
        raise MediaError(f"{type(error).__name__}: {error}") from error
    if answer.error:
        raise MediaError(answer.error, fault=answer.fault)
    return Answer.read(answer.line()), made
