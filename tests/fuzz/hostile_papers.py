"""Documents made to use all memory or all time, or that contain more than they seem to."""

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from itertools import pairwise

from tests.backends.media.papers import pdf_of, xlsx, zipped

_WORD = "word/document.xml"


def bomb(name: str, piece: bytes, times: int, around: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """Return an archive with one file that unpacks to a piece repeated this many times."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made, made.open(name, "w") as file:
        file.write(around[0])
        for _ in range(times):
            file.write(piece)
        file.write(around[1])
    return out.getvalue()


def laughs() -> bytes:
    """Return a Word file of entities, each ten times the next: a billion laughs."""
    names = "abcdefghij"
    grown = "".join(
        f'<!ENTITY {name} "' + f"&{before};" * 10 + '">' for before, name in pairwise(names)
    )
    head = f'<!DOCTYPE l [<!ENTITY a "ha">{grown}]>'
    return zipped({_WORD: f"{head}<document><p><t>&j;</t></p></document>"})


def foreign() -> bytes:
    """Return a Word file that names a file of the machine."""
    head = '<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    return zipped({_WORD: f"{head}<document><p><t>&a;</t></p></document>"})


def crowded() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for number in range(30_000):
            made.writestr(f"{number}.xml", "")
    return out.getvalue()


def wide() -> bytes:
    """Return a workbook whose cells are all in the last column."""
    return xlsx(("<row>" + '<c r="XFD1"/>' * 60_000 + "</row>") * 2)


def repeated() -> bytes:
    """Return a workbook that names one long text over and over."""
    return xlsx("<row>" + '<c t="s"><v>0</v></c>' * 30_000 + "</row>", ["y" * 100_000])


def stream(body: bytes, about: bytes = b"") -> bytes:
    return b"<< /Length %d %b >>\nstream\n%b\nendstream" % (len(body), about, body)


def page(content: bytes, used: bytes = b"", *further: bytes, box: bytes = b"0 0 595 842") -> bytes:
    """Return a PDF of one page with this content and the objects it uses, from number 5 on."""
    return pdf_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [%b] /Contents 4 0 R /Resources << %b >> >>"
            % (box, used),
            content,
            *further,
        ]
    )


def page_tree() -> bytes:
    """Return a PDF whose number of pages is a hundred to the power of ten."""
    levels = [
        b"<< /Type /Pages /Kids [%b] /Count 1000000000 >>" % (b"%d 0 R " % (number + 1) * 100)
        for number in range(2, 12)
    ]
    return pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", *levels, b"<< /Type /Page >>"])


def packed_twice() -> bytes:
    """Return a PDF of some kilobytes whose page unpacks to gigabytes."""
    once = zlib.compressobj(9)
    head, piece = (once.compress(bytes(4_000_000)) + once.flush(zlib.Z_FULL_FLUSH) for _ in "ab")
    whole = head + piece * 499 + once.flush()
    return page(stream(zlib.compress(whole, 9), b"/Filter [/FlateDecode /FlateDecode]"))


def endless_lines() -> bytes:
    """Return a PDF whose page is drawn with millions of lines."""
    lines = zlib.compress(b"0 0 m 1 900 l 3 0 l 500 500 l b\n" * 3_000_000)
    return page(stream(lines, b"/Filter /FlateDecode"))


def drawn_in_itself(levels: int) -> bytes:
    """Return a PDF whose drawings each draw the next one twenty times, and the last itself."""
    about = (
        b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X %d 0 R >> >>"
    )
    nexts = [min(number + 1, 4 + levels) for number in range(5, 5 + levels)]
    forms = [stream(b"/X Do " * 20, about % number) for number in nexts]
    return page(stream(b"/X Do"), b"/XObject << /X 5 0 R >>", *forms)


def image(about: bytes, body: bytes) -> bytes:
    """Return a PDF with one image that claims to be enormous."""
    kind = b"/Type /XObject /Subtype /Image /ColorSpace /DeviceGray " + about
    return page(stream(b"500 0 0 500 0 0 cm /X Do"), b"/XObject << /X 5 0 R >>", stream(body, kind))


_JBIG2 = bytes.fromhex("00000000300001000000130000ffff0000ffff0000000000000000010000") + bytes(99)
OFFICE: Mapping[str, Callable[[], bytes]] = {
    "blanks": lambda: bomb(_WORD, b" " * 1_000_000, 300, (b"<a>", b"</a>")),
    "elements": lambda: bomb(_WORD, b"<b/>" * 100_000, 600, (b"<a>", b"</a>")),
    "words": lambda: bomb(_WORD, b"<p><t>hello</t></p>" * 10_000, 900, (b"<a>", b"</a>")),
    "laughs": laughs,
    "foreign": foreign,
    "deep": lambda: zipped({_WORD: "<a>" * 100_000}),
    "fields": lambda: zipped({_WORD: "<a " + " ".join(f'a{at}=""' for at in range(99_000)) + "/>"}),
    "a name": lambda: zipped({_WORD: f"<{'a' * 5_000_000}/>"}),
    "crowded": crowded,
    "wide": wide,
    "repeated": repeated,
}
PDFS: Mapping[str, Callable[[], bytes]] = {
    "count": lambda: pdf_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 2000000000 >>",
            b"<< /Type /Page /Parent 2 0 R >>",
        ]
    ),
    "circle": lambda: pdf_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9999 >>",
        ]
    ),
    "tree": page_tree,
    "deep": lambda: page(stream(b"[" * 3_000_000)),
    "deep objects": lambda: pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", b"[" * 1_000_000]),
    "packed twice": packed_twice,
    "lines": endless_lines,
    "in itself": lambda: drawn_in_itself(1),
    "in each other": lambda: drawn_in_itself(9),
    "enormous": lambda: page(stream(b"0 0 1 1 re f"), box=b"0 0 1e30 1e30"),
    "thin": lambda: page(stream(b"0 0 1 1 re f"), box=b"0 0 1e9 0.0001"),
    "a large image": lambda: image(
        b"/Width 100000 /Height 100000 /BitsPerComponent 8 /Filter /FlateDecode",
        zlib.compress(bytes(50_000_000)),
    ),
    "JBIG2": lambda: image(
        b"/Width 65535 /Height 65535 /BitsPerComponent 1 /Filter /JBIG2Decode", _JBIG2
    ),
}
