"""The helper for files as tests run it: it gives its time to no one, or on a busy machine it would get none."""

EAGER = (
    "-P",
    "-c",
    "from backends.media.helper import worker; worker._NICE = 0; worker.main()",
)
