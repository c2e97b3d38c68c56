"""What picture servers report, for the queue and for the person. Pure.

Some report an error with status 200. People never see the server's own words.
"""

from collections.abc import Sequence
from functools import partial

from backends.common.error_rules import (
    ABOUT_MEMORY,
    ErrorRule,
    answers_judged,
    judged,
    judged_answer,
)
from backends.common.model_server import NO_MODEL
from queueing.core.errors import (
    BadModel,
    Busy,
    Interrupted,
    NotLoaded,
    Rejected,
)
from queueing.core.problems import What, problem

STEP_FAILED = problem(What.STEP_FAILED)

# The first that matches decides.
RULES: Sequence[ErrorRule] = (
    *ABOUT_MEMORY,
    ErrorRule(kind=Busy, sentences=("job queue is full[.]?",)),
    ErrorRule(
        kind=Interrupted,
        codes=frozenset({"cancelled", "interrupted"}),
        sentences=("(the )?(request|generation|job|task)? ?(was )?(interrupted|cancelled).*",),
    ),
    ErrorRule(
        kind=NotLoaded,
        sentences=("no model loaded[.]?", "(the )?model is not loaded[.]?"),
    ),
    ErrorRule(
        kind=BadModel,
        told=NO_MODEL,
        codes=frozenset({"model_not_found", "bad_route"}),
        sentences=(
            "(the )?model ([^ ]+ )?(not found|does not exist)[.]?",
            "no such model[.:]?( [^ ]+)?",
            "loaded model does not support img_gen[.]?",
        ),
    ),
    ErrorRule(
        kind=Rejected,
        told=STEP_FAILED,
        codes=frozenset({"generation_failed"}),
        words=("returned no results",),
    ),
)

classify = partial(judged, RULES)
classify_answer = partial(judged_answer, RULES)
classified = partial(answers_judged, RULES)
