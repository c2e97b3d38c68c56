"""Removes reasoning and template marks that servers leave in the text of an answer. Pure.

A server that does not know a model's template does not remove the model's own marks: those around
its reasoning, and the one that ends a turn. The tables below come from the templates of the model
families.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_BLOCKS: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<thoughts>": "</thoughts>",
    "<reasoning>": "</reasoning>",
    "<reflection>": "</reflection>",
    "<antthinking>": "</antthinking>",
    "<seed:think>": "</seed:think>",
    "[think]": "[/think]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi
    "<|channel>thought": "<channel|>",  # Gemma 4
    "<unused94>thought": "<unused95>",  # MedGemma
    "<|start_thinking|>": "<|end_thinking|>",  # Cohere
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|thinking_start|>": "<|thinking_end|>",
}
"""The marks around a block of reasoning, in lower case: servers and models vary the case."""
_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end_of_turn|>",
    "<|end_of_turn_token|>",
    "<|return|>",
    "<|end|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    "</s>",
    "[/inst]",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",  # DeepSeek, with wide bars
)
"""Marks that end a turn in the templates of families, in lower case."""
_CLOSINGS: Mapping[str, re.Pattern[str]] = {
    closing: re.compile(re.escape(closing), re.IGNORECASE) for closing in _BLOCKS.values()
}
_SIGNS = frozenset(mark[0] for mark in (*_BLOCKS, *_CLOSINGS))
_MARKS = re.compile(
    "|".join(re.escape(mark) for mark in sorted({*_BLOCKS, *_CLOSINGS}, key=len, reverse=True))
    + r"|^[ \t>]*(?:```|~~~)|`[^`\n]+`",
    re.IGNORECASE | re.MULTILINE,
)
_THINKS = (
    *(
        f"{who} {what}"
        for who in ("the", "this")
        for what in ("user", "human", "question", "prompt")
    ),
    *(f"i need to {what}" for what in ("figure", "think", "answer", "respond", "provide")),
    *(
        f"{who} {what}"
        for who in ("let me", "let's")
        for what in ("think", "see", "recall", "analy")
    ),
    "we need to",
    "we are asked",
    "i am asked",
    "i'm asked",
    "thinking process",
    "analysis:",
    "用户",
    "嗯",
)
"""Phrases with which models begin to reason, in lower case."""
_FILLERS = (
    "okay",
    "ok",
    "alright",
    "all right",
    "hmm",
    "well",
    "so",
    "right",
    "first",
    "now",
    "好的",
)
_FILLED = re.compile(rf"(?:(?:{'|'.join(_FILLERS)})m*(?:[^\w<]+|\Z|(?=用)))*", re.IGNORECASE)
_BEGUN = (*_BLOCKS, *_ENDS, "<|channel|>", "<|start|>")
_LONGEST = max(map(len, _BEGUN))
_FIRST = frozenset(mark[0] for mark in _BEGUN)

# gpt-oss ("harmony"): each message has a channel; only "final" is for the reader.
_PRIVATE = re.compile(
    r"<\|channel\|>(?:analysis|commentary)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r".*?(?:<\|end\|>|<\|call\|>|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_HEADS = re.compile(r"<\|start\|>\w*|<\|channel\|>\w*(?:<\|message\|>)?|<\|message\|>")
_BARE_START, _BARE_FINAL = "analysis", "assistantfinal"
_BARE = re.compile(_BARE_START + r"(?=[A-Z])")


class _Left(NamedTuple):
    """A text without its reasoning. `closed` means that a block of reasoning has ended in it.

    `unopened` means that the block has only a closing mark.
    """

    text: str
    closed: bool = False
    unopened: bool = False


def without_thoughts(content: str, *, over: bool = True, opened: bool = False) -> str:
    """Return the answer without blocks of reasoning and without the marks that end a turn.

    Marks in code, inline or fenced, are part of the answer. `over` means that the text is complete.
    Until then, text that may belong to a mark or a block is withheld. `opened` is for a model whose
    template opens a block: everything up to the closing mark is withheld. Otherwise a text that
    begins like reasoning is.
    """
    left = _without_blocks(_final_channel(content.lstrip(), over=over), over=over)
    if not over and not left.closed and (opened or _may_think(left.text)):
        return ""
    return _without_end(left.text if over else _without_half_mark(left.text))


def opened_by_template(content: str) -> bool:
    """Return whether the reasoning in an answer has a closing mark and no opening one."""
    return _without_blocks(content.lstrip(), over=True).unopened


def _may_think(text: str) -> bool:
    """Return whether a text begins like reasoning, or may do so with its next words."""
    begun = text[:80].lower()
    rest = _FILLED.sub("", begun, count=1)
    return any(rest.startswith(sign) for sign in _THINKS) or (
        len(begun) < 80 and any(sign.startswith(rest) for sign in (*_THINKS, *_FILLERS))
    )


def _final_channel(text: str, *, over: bool) -> str:
    if "<|channel|>" in text:
        public = _PRIVATE.sub("", text)
        if not over and "<|message|>" not in public.rpartition("<|channel|>")[2]:
            public = public.rpartition("<|channel|>")[0]  # its head is not complete
        return _HEADS.sub("", public).lstrip()
    if _BARE.match(text):  # the same where the server drops the marks themselves
        _, found, answer = text.rpartition(_BARE_FINAL)
        return answer if found else text if over else ""
    return "" if not over and _BARE_START.startswith(text) else text


def _without_blocks(text: str, *, over: bool) -> _Left:
    if not any(sign in text for sign in _SIGNS):
        return _Left(text.lstrip())
    kept: list[str] = []
    never_closed = set[str]()
    start = at = 0
    fenced = closed = unopened = False
    while mark := _MARKS.search(text, at):
        word, at = mark[0].lower(), mark.end()
        if word not in _BLOCKS and word not in _CLOSINGS:
            fenced ^= not word.startswith("`") or word == "```"
            continue
        if fenced:
            continue
        if word in _CLOSINGS:
            # Templates that end in the opening mark leave only the closing one to the model.
            if _is_quoted(text, mark):
                continue
            unopened |= not closed
            kept = [] if not kept else [*kept, text[start : mark.start()]]
            start, closed = at, True
            continue
        closing = _BLOCKS[word]
        end = None if closing in never_closed else _CLOSINGS[closing].search(text, at)
        if end is not None:
            kept.append(text[start : mark.start()])
            start = at = end.end()
            closed = True
            continue
        never_closed.add(closing)
        if not over or not "".join((*kept, text[start : mark.start()])).strip():
            return _Left("".join((*kept, text[start : mark.start()])).strip(), closed, unopened)
    return _Left("".join((*kept, text[start:])).lstrip(), closed, unopened)


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark is mentioned in a sentence: text on the same line on both sides."""
    before, after = text[: mark.start()][-1:], text[mark.end() :][:1]
    return before in {" ", '"', "'", "“", "("} and after not in {"", "\n"}


def _without_end(text: str) -> str:
    """Return a text without the marks that end a turn, however many there are."""
    while True:
        bare = text.rstrip()
        tail = bare[-_LONGEST:].lower()
        end = next((mark for mark in _ENDS if tail.endswith(mark)), None)
        if end is None or bare[: len(bare) - len(end)].endswith("`"):
            return text
        text = bare[: len(bare) - len(end)].rstrip()


def _without_half_mark(text: str) -> str:
    """Return a text without an ending that may become a mark."""
    for at in range(max(0, len(text) - _LONGEST), len(text)):
        if text[at] in _FIRST:
            half = text[at:].lower()
            if any(mark.startswith(half) for mark in _BEGUN):
                return text[:at]
    return text
