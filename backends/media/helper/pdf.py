"""Reads PDFs, and renders pages without text. Only for the helper process."""

import math
import time
from contextlib import suppress
from itertools import islice
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from backends.common.file_types import Fault
from backends.media.helper.document_content import Full, Paper
from backends.media.helper.pixels import SIDE_MOST, as_page
from backends.media.helper.protocol import Answer, Faulty, Order

_PAGES_MOST = 1000
_PROCESSOR_S = 15.0  # afterwards, the answer contains the text found so far
_WORDLESS = 40  # characters; a page with fewer may be a scan
_SCALE_MOST = 4.0
_OBJECTS_MOST = 1000  # examined to detect a scan


def read(order: Order, data: bytes) -> tuple[Answer, bytes]:
    """Read a PDF. Raises `Faulty`."""
    document = _opened(data)
    paper = Paper(order.characters)
    wordless = _written(document, paper)
    scanned = wordless if 2 * len(wordless) >= min(len(document), _PAGES_MOST) else []
    drawn = []
    for number in scanned[: order.images]:
        if _late():
            break
        with suppress(pypdfium2.PdfiumError):  # skip a damaged page
            drawn.append(_drawn(document[number]))
    if scanned and order.images and not drawn:
        raise Faulty(Fault.UNREADABLE)
    text = paper.text().encode("utf-8", "replace")
    answer = Answer(
        mime="text/plain",
        pages=len(document),
        truncated=paper.truncated or len(drawn) < len(scanned),
        parts=(len(text), *(len(image) for image in drawn)),
    )
    return answer, b"".join((text, *drawn))


def _opened(data: bytes) -> Any:
    try:
        document: Any = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        locked = error.err_code in {pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY}
        raise Faulty(Fault.ENCRYPTED if locked else Fault.UNREADABLE) from error
    if len(document) < 1:
        raise Faulty(Fault.UNREADABLE)
    return document


def _written(document: Any, paper: Paper) -> list[int]:
    """Write the text of all pages; return the numbers of the scans."""
    wordless = []
    try:
        for number in range(len(document)):
            if number >= _PAGES_MOST or _late():
                paper.truncated = True
                break
            text, scanned = _words(document, number, paper.room)
            if scanned:
                wordless.append(number)
            if text.strip():
                paper.add(f"\n[page {number + 1}]\n{text}\n")
    except Full:
        pass
    return wordless


def _words(document: Any, number: int, most: int) -> tuple[str, bool]:
    """Return a page's text and whether it is a scan; a damaged page counts as an empty scan."""
    try:
        page = document[number]
        words = page.get_textpage()
        many = words.count_chars() > most
        text = str(words.get_text_range(count=most + 1) if many else words.get_text_bounded())
        return text, len("".join(text.split())) < _WORDLESS and _is_drawn(page, text)
    except pypdfium2.PdfiumError:
        return "", True


def _is_drawn(page: Any, text: str) -> bool:
    """Return whether a page shows more than its little text: an image, or text drawn as shapes."""
    shown = {each.type for each in islice(page.get_objects(max_depth=2), _OBJECTS_MOST)}
    return pdfium.FPDF_PAGEOBJ_IMAGE in shown or (bool(shown) and not text.strip())


def _drawn(page: Any) -> bytes:
    sides = [side if math.isfinite(side) and side > 0 else 1.0 for side in page.get_size()]
    scale = min(SIDE_MOST / max(sides), _SCALE_MOST)
    image = page.render(scale=scale, may_draw_forms=False).to_pil()
    return as_page(image)


def _late() -> bool:
    return time.process_time() > _PROCESSOR_S
