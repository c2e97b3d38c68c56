"""The operator's own workflow files, by their place and by what is in them."""

import hashlib
from pathlib import Path


class WorkflowFile(str):
    """The path of a workflow file, with a digest of what it held as the configuration was read.

    Two of them are equal only if their contents are, so that a changed file is a changed setting.
    """

    __slots__ = ("digest",)

    digest: str

    def __eq__(self, other: object) -> bool:
        """Compare the digests, too, where the other has one."""
        if isinstance(other, WorkflowFile) and other.digest != self.digest:
            return False
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def workflow_file(path: Path) -> WorkflowFile:
    """Read a workflow file's digest; it is empty for one that cannot be read, which is told later."""
    made = WorkflowFile(path)
    try:
        made.digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        made.digest = ""
    return made
