"""Documents become text, or images of their pages."""

import io

import pytest
from PIL import Image

from backends.media import documents
from backends.media.documents import (
    DocumentContents,
    DocumentError,
    Fault,
    is_document,
    read_document,
)
from queueing.core.requests import File
from tests.backends.media.papers import (
    docx,
    locked_pdf,
    open_document,
    paragraph,
    pdf,
    pptx,
    scanned_pdf,
    xlsx,
    zipped,
)

LONG = "The house was built in 1904 and painted twice since then."


def file(data: bytes, name: str = "paper.bin") -> File:
    return File(name=name, mime="application/octet-stream", data=data)


async def read(data: bytes, **how: int) -> DocumentContents:
    return await read_document(file(data), **how)


async def fault_of(data: bytes) -> Fault:
    with pytest.raises(DocumentError) as raised:
        await read_document(file(data))
    return raised.value.fault


# ---------------------------------------------------------------- office files


async def test_a_word_file_is_read() -> None:
    """A question about a letter would be asked without the letter."""
    row = "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in ("Rent", "700"))
    body = (
        f"{paragraph('Dear Ada,')}<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/>"
        "<w:t>three</w:t><w:delText>gone</w:delText></w:r></w:p>"
        f"<w:tbl><w:tr>{row}</w:tr></w:tbl>"
    )
    found = await read(docx(body))
    assert found.text == "Dear Ada,\none\ttwo\nthree\nRent \t700"
    assert not found.truncated


async def test_slides_are_read_in_the_order_they_are_shown_with_their_notes() -> None:
    """An answer would tell the story in the wrong order."""
    found = await read(pptx(["First", "Second"], "Say hello"))
    assert found.text == "[slide 1]\nFirst\n\n[slide 2]\nSecond\n\n[notes]\nSay hello"
    assert found.pages == 2


async def test_a_workbook_is_read_with_dates_as_dates() -> None:
    """A model would be asked about 45992 instead of a day."""
    rows = (
        '<row><c r="A1" t="s"><v>1</v></c><c r="C1"><v>2.5</v></c></row><row/>'
        '<row><c r="A3" s="1"><v>45992</v></c><c r="B3" s="2"><v>45992.75</v></c>'
        '<c r="C3" t="inlineStr"><is><t>in place</t></is></c><c r="D3" t="b"><v>1</v></c></row>'
    )
    found = await read(xlsx(rows, ["unused", "Rent"]))
    assert found.text == (
        "[sheet Costs]\nRent\t\t2.5\n2025-12-01\t2025-12-01 18:00:00\tin place\tTRUE"
    )
    assert found.pages == 1


async def test_open_documents_are_read() -> None:
    """Files of LibreOffice would be refused."""
    text = await read(
        open_document(
            "text",
            "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
            '<text:h>Title</text:h><text:p>a<text:s text:c="2"/>b<text:line-break/>c</text:p>',
        )
    )
    assert text.text == "Title\na  b\nc"
    cells = (
        '<table:table-cell table:number-columns-repeated="2"><text:p>7</text:p></table:table-cell>'
        '<table:table-cell table:number-columns-repeated="16000"/>'
    )
    sheet = await read(
        open_document(
            "spreadsheet",
            f'<table:table table:name="May"><table:table-row>{cells}</table:table-row></table:table>',
        )
    )
    assert (sheet.text, sheet.pages) == ("[sheet May]\n7\t7", 1)
    slides = await read(
        open_document("presentation", "<draw:page><text:p>Hello</text:p></draw:page>" * 2)
    )
    assert (slides.text, slides.pages) == ("[slide 1]\nHello\n\n[slide 2]\nHello", 2)


# ---------------------------------------------------------------- PDFs


async def test_a_pdf_is_read_page_by_page() -> None:
    """A question about a paper would be asked without the paper."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    found = await read(pdf([LONG, LONG.upper()]))
    assert found.text.split("\n\n") == [f"[page 1]\n{LONG}", f"[page 2]\n{LONG.upper()}"]
    assert (found.pages, found.images, found.truncated) == (2, (), False)


async def test_a_scanned_pdf_becomes_images_of_its_pages() -> None:
    """A photographed letter would count as an empty document."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    found = await read_document(file(scanned_pdf(3), "letter.pdf"), images=2)
    assert (found.text, found.pages, found.truncated) == ("", 3, True)
    assert [each.name for each in found.images] == ["letter-1.jpg", "letter-2.jpg"]
    for number, each in enumerate(found.images):
        with Image.open(io.BytesIO(each.data), formats=["JPEG"]) as page:
            assert max(page.size) <= 1568
            wide, high = page.size
            ink = page.convert("L").point(lambda value: 255 * (value < 128)).getbbox()
            assert ink is not None
            assert ink[2] / wide == pytest.approx((60 + 40 * number) / 300, abs=0.02)
            assert ink[3] / high == pytest.approx(120 / 420, abs=0.02)


async def test_a_page_with_few_words_is_no_scan() -> None:
    """A short letter would be sent as an image, which most models cannot see."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    found = await read(pdf(["Yours, Ada", ""]))
    assert (found.text, found.images) == ("[page 1]\nYours, Ada", ())


async def test_images_in_an_office_file_without_words_are_shown() -> None:
    """A letter photographed into a Word file would count as an empty document."""
    photo, sign = io.BytesIO(), io.BytesIO()
    Image.effect_noise((2000, 900), 60).save(photo, "PNG")
    Image.effect_noise((40, 40), 60).save(sign, "PNG")
    files = {
        "word/media/image10.png": photo.getvalue(),
        "word/media/image2.png": photo.getvalue(),
        "word/media/image1.png": sign.getvalue(),
        "word/media/image3.emf": b"not read",
    }
    scanned = zipped({"word/document.xml": "<document><p><t>Hi</t></p></document>", **files})
    found = await read(scanned)
    assert (found.text, len(found.images)) == ("Hi", 2)
    with Image.open(io.BytesIO(found.images[0].data), formats=["JPEG"]) as page:
        assert page.size == (1568, 706)
    words = f"<document><p><t>{LONG * 9}</t></p></document>"
    assert (await read(zipped({"word/document.xml": words, **files}))).images == ()


# ---------------------------------------------------------------- bounds and refusals


async def test_more_text_than_asked_for_is_cut_and_says_so() -> None:
    """A book would push the question out of the model's context."""
    for data in (docx(paragraph("word " * 500)), xlsx("<row><c><v>12345</v></c></row>" * 99)):
        found = await read(data, characters=100)
        assert len(found.text) <= 100
        assert found.truncated


async def test_more_pages_than_asked_for_are_cut_and_say_so() -> None:
    """A document of many pages would push the question out of the model's context."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    found = await read(pdf([LONG] * 5), characters=100)
    assert len(found.text) <= 100
    assert found.truncated
    assert found.pages == 5


async def test_what_is_wrong_with_a_document_is_told() -> None:
    """People would be told that a locked file is broken, and send it again."""
    locked = open_document("text", "<text:p>x</text:p>", encrypted=True)
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    assert await fault_of(locked) is Fault.ENCRYPTED
    assert await fault_of(old + "EncryptedPackage".encode("utf-16-le")) is Fault.ENCRYPTED
    assert await fault_of(old) is Fault.OLD
    assert await fault_of(zipped({"a.txt": "no office file"})) is Fault.UNREADABLE
    assert await fault_of(docx("<w:p>")) is Fault.UNREADABLE
    assert await fault_of(b"hello") is Fault.UNREADABLE
    assert await fault_of(bytes(documents.MOST_BYTES + 1)) is Fault.TOO_LARGE


async def test_what_is_wrong_with_a_pdf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who lacks the library would look for a fault in the file."""
    pytest.importorskip("pypdfium2", reason="PDFs need usher-bot[media]")
    assert await fault_of(locked_pdf()) is Fault.ENCRYPTED
    assert await fault_of(b"%PDF-1.4\n" + bytes(400)) is Fault.UNREADABLE
    monkeypatch.setattr(documents, "reads_pdfs", lambda: False)
    assert await fault_of(pdf(["hello"])) is Fault.NO_LIBRARY


def test_documents_are_known_by_their_type_or_ending() -> None:
    """A file that a chat labels only as bytes would be refused."""
    assert is_document("application/pdf")
    assert is_document("application/vnd.oasis.opendocument.text; charset=binary")
    assert is_document("application/octet-stream", "Letter.DOCX")
    assert not is_document("application/zip", "photos.zip")
    assert not is_document("application/msword", "old.doc")
