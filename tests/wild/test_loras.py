"""Names of LoRAs as people write them, and the files that servers list.

Each file of `loras/` has a name as it is `written` and the server's `files`. It has the file to be
`used`, or the `choices` to be shown to the person.
"""

from pathlib import Path

import pytest

from backends.common.model_names import lora_named, lora_names
from queueing.core.errors import Rejected
from tests.samples import in_turn
from tests.told import words
from tests.wild.cases import cases, read_case

CASES = cases("loras")


@in_turn("case", CASES)
def test_the_right_file_is_used_or_the_choices_are_shown(case: Path) -> None:
    """An image would be drawn in another style, and nobody would know why."""
    odd = read_case(case)
    if "used" in odd:
        assert lora_named(odd["written"], odd["files"]) == odd["used"]
        return
    with pytest.raises(Rejected) as refused:
        lora_named(odd["written"], odd["files"])
    assert words(refused.value).endswith(f": {', '.join(odd['choices'])}.")


@in_turn("case", CASES)
def test_every_name_that_is_listed_means_its_file(case: Path) -> None:
    """People would choose from a list and be refused, or get another file."""
    files = list(dict.fromkeys(read_case(case)["files"]))
    assert [lora_named(name, files) for name in lora_names(files)] == files
