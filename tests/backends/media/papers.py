"""Small documents of every kind that the bot reads, made by hand, some of them hostile."""

import io
import zipfile
from collections.abc import Mapping, Sequence

from PIL import Image, ImageDraw

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_RELATED = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
_KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_ODF = (
    " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table", "manifest")
    )
    + ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
)


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in files.items():
            package.writestr(name, text)
    return out.getvalue()


def docx(body: str) -> bytes:
    """Return a Word file with the XML of a body."""
    return zipped({"word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>"})


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def related(targets: Mapping[str, tuple[str, str]]) -> str:
    each = "".join(
        f'<Relationship Id="{name}" Type="{_KIND}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f"<Relationships {_RELATED}>{each}</Relationships>"


def _slide(text: str) -> str:
    body = f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"
    return f"<p:sld {_P} {_A}><p:cSld><p:sp><p:txBody>{body}</p:txBody></p:sp></p:cSld></p:sld>"


def pptx(slides: Sequence[str], notes: str) -> bytes:
    """Return a presentation whose slides' files are numbered backwards; the last has notes."""
    names = {f"rId{at}": f"slide{len(slides) - at}.xml" for at in range(len(slides))}
    shown = "".join(f'<p:sldId id="{256 + at}" r:id="{name}"/>' for at, name in enumerate(names))
    files = {
        "ppt/presentation.xml": f"<p:presentation {_P} {_R}><p:sldIdLst>{shown}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": related(
            {name: ("slide", f"slides/{file}") for name, file in names.items()}
        ),
        f"ppt/slides/_rels/{[*names.values()][-1]}.rels": related(
            {"rId1": ("notesSlide", "../notesSlides/notesSlide1.xml")}
        ),
        "ppt/notesSlides/notesSlide1.xml": _slide(notes),
    }
    files |= {
        f"ppt/slides/{file}": _slide(text)
        for file, text in zip(names.values(), slides, strict=True)
    }
    return zipped(files)


def xlsx(rows: str, shared: Sequence[str] = ()) -> bytes:
    """Return a workbook of one sheet; style 1 is for dates, style 2 for dates by their own code."""
    strings = "".join(f"<si><t>{text}</t></si>" for text in shared)
    return zipped(
        {
            "xl/workbook.xml": f'<workbook {_S} {_R}><sheets><sheet name="Costs" sheetId="7" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": related(
                {"rId1": ("worksheet", "/xl/worksheets/one.xml")}
            ),
            "xl/sharedStrings.xml": f"<sst {_S}>{strings}</sst>",
            "xl/styles.xml": (
                f'<styleSheet {_S}><numFmts><numFmt numFmtId="164" formatCode="[$-407]d. mmm yy"/></numFmts>'
                '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>'
                '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs></styleSheet>'
            ),
            "xl/worksheets/one.xml": f"<worksheet {_S}><sheetData>{rows}</sheetData></worksheet>",
        }
    )


def open_document(kind: str, body: str, *, encrypted: bool = False) -> bytes:
    """Return an OpenDocument file: a text, a spreadsheet or a presentation."""
    mime = f"application/vnd.oasis.opendocument.{kind}"
    lock = "<manifest:encryption-data/>" if encrypted else ""
    return zipped(
        {
            "mimetype": mime,
            "META-INF/manifest.xml": (
                f'<manifest:manifest {_ODF}><manifest:file-entry manifest:full-path="/" '
                f'manifest:media-type="{mime}"/><manifest:file-entry manifest:full-path="content.xml">'
                f"{lock}</manifest:file-entry></manifest:manifest>"
            ),
            "content.xml": (
                f"<office:document-content {_ODF}><office:body>{body}</office:body>"
                "</office:document-content>"
            ),
        }
    )


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects, of which the first is the root."""
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    at = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R %b >>\n" % (len(objects) + 1, trailer)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % at)


def pdf(pages: Sequence[str], trailer: bytes = b"", *, size: str = "595 842") -> bytes:
    """Return a PDF with these lines of text on each page."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%b] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        lines = b" ".join(b"(%b) Tj T*" % line.encode("latin-1") for line in text.split("\n"))
        drawn = b"BT /F1 9 Tf 40 780 Td 12 TL %b ET" % lines
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %b] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (size.encode(), 5 + 2 * at),
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(drawn), drawn),
        ]
    return pdf_of(objects, trailer)


def locked_pdf() -> bytes:
    """Return a PDF that asks for a password."""
    key = "ab" * 32
    lock = f"<< /Filter /Standard /V 1 /R 2 /O <{key}> /U <{key}> /P -4 >>"
    return pdf(["secret"], f"/Encrypt {lock} /ID [<01> <01>]".encode())


def scanned_pdf(pages: int) -> bytes:
    """Return a PDF whose pages are images."""
    drawn = []
    for number in range(pages):
        page = Image.new("RGB", (300, 420), "white")
        ImageDraw.Draw(page).rectangle((40, 40, 60 + 40 * number, 120), fill="black")
        drawn.append(page)
    out = io.BytesIO()
    drawn[0].save(out, "PDF", save_all=True, append_images=drawn[1:])
    return out.getvalue()
