"""The SVG parts that all charts share: style sheet, frame, text.

No library and no script. One style sheet has the colours of light and dark pages. Text is text, so that it can be
searched and read aloud.
"""

from typing import Final
from xml.sax.saxutils import escape

STYLE: Final = """\
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #24292f }
.title { font-size: 17px; font-weight: 600 } .note, .axis { fill: #57606a; font-size: 12px }
.grid { stroke: #d0d7de } .one { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 4 3 }
.spread { stroke: #24292f; stroke-opacity: .55 }
.c0 { fill: #0969da } .c1 { fill: #8c959f } .c2 { fill: #1b9e77 } .c3 { fill: #bf6b1c }
.c4 { fill: #8250df } .c5 { fill: #bf3989 } .c6 { fill: #6c6f00 }
.c7 { fill: #444c56 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note, .axis { fill: #9198a1 }
.grid { stroke: #30363d } .one { stroke: #9198a1 }
.spread { stroke: #e6edf3 }
.c0 { fill: #4493f8 } .c1 { fill: #6e7681 } .c2 { fill: #3fb28f } .c3 { fill: #d98c45 }
.c4 { fill: #a371f7 } .c5 { fill: #f778ba } .c6 { fill: #b3b000 }
.c7 { fill: #c9d1d9 }
}"""


def document(
    title: str, note: str, size: tuple[int, int], parts: list[str], style: str = STYLE
) -> str:
    """Return the text of a file: title and note above the parts."""
    width, height = size
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        text(16, 24, "title", title),
        text(16, 43, "note", note),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def text(x: float, y: float, style: str, content: str, anchor: str = "start") -> str:
    """Return a text element; `style` is its class."""
    at = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {at} class="{style}">{escape(content)}</text>'
