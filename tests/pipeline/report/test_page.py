"""The page of a report: well-formed, whole, and safe with any name."""

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.report.facts import ClientName, ClientUse, DataQuality, ReportFacts, TracedRequest
from pipeline.report.page import html_of
from tests.support.pipeline.report_facts import busy_facts, empty_facts, replaced

VOID = {"meta", "link", "br", "rect", "path", "circle", "line"}
MAX_BYTES = 600_000


class _Outline(HTMLParser):
    """Checks that elements are closed in order; keeps attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@cache
def busy_html() -> str:
    """Return the page of a busy day."""
    return html_of(busy_facts())


def outline_of(html: str) -> _Outline:
    """Return the parsed page; all its elements are closed."""
    parsed = _Outline()
    parsed.feed(html)
    parsed.close()
    assert not parsed.open
    return parsed


def outline(facts: ReportFacts) -> _Outline:
    """Return the parsed page; all its elements are closed."""
    return outline_of(html_of(facts))


def test_the_page_has_everything_in_it() -> None:
    """It opens with the finding; every chart is there for two screens; nothing is loaded."""
    html, parsed = busy_html(), outline_of(busy_html())

    assert "<h1>38 % of the requests of alice / report were throttled" in html
    assert parsed.tags.count("h1") == 1
    assert html.count('<svg class="wide"') == html.count('<svg class="narrow"') == 12
    assert all(value for name, value in parsed.attributes if name == "aria-label")
    assert len(html.encode()) < MAX_BYTES
    for heading in ("Traffic", "Throttled", "Quota against need", "What if", "Throttle latency",
                    "Purgatory latency", "Where time went", "slowest requests", "Memory pools",
                    "Data quality"):  # fmt: skip
        assert heading in parsed.text


def test_nothing_is_loaded_from_anywhere() -> None:
    """No script, no address, and a policy of the page that would forbid both."""
    parsed = outline_of(busy_html())

    assert not {"script", "iframe", "img", "object"} & set(parsed.tags)
    assert parsed.tags.count("link") == 1  # the empty icon, or a browser asks for one
    assert not [
        a for a in parsed.attributes if a[0].startswith("on") or a[0] in ("src", "xlink:href")
    ]
    assert [value for name, value in parsed.attributes if name == "href"] == ["data:,"]
    html = busy_html()
    assert not re.findall(r"https?:|@import|url\((?!#)", html)
    assert "default-src 'none'" in html


def test_a_page_of_nothing_says_so() -> None:
    """Tables without requests give a short page, without an empty chart."""
    parsed = outline(empty_facts())

    assert "No client sent a request." in parsed.text
    assert "figure" not in parsed.tags
    assert "complete" in parsed.text


def test_quality_is_told_in_numbers() -> None:
    """Every kind of loss has a line; a page of clean data says that it is complete."""
    text = outline_of(busy_html()).text
    clean = outline(replaced(empty_facts(), quality=DataQuality({"entity": 7}, duplicates=2))).text

    for words in ("not complete", "118", "3 torn line, 12 unknown version", "2,600", "40"):
        assert words in text
    assert "not complete" not in clean
    assert "complete" in clean


NAMES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><b>", "&lt;b&gt;",
            "\u202egnp.exe", "a" * 1024, "\x00\x07\n", "]]>", "{datum.x}", "\\u003cb\\u003e", "", " ",
        ]
    ),
)  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4, unique=True))
def test_names_make_no_element_and_no_attribute(names: list[tuple[str, str]]) -> None:
    """The page has the same elements as with plain names."""

    def facts_of(pairs: list[tuple[str, str]]) -> ReportFacts:
        clients = [ClientName(*pair) for pair in pairs]
        base = empty_facts()
        return replaced(
            base,
            clients=tuple(
                ClientUse(client, 100, 100, 50, 500, 90, f"user={client.user}", 5.0)
                for client in clients
            ),
            slowest=tuple(
                TracedRequest("0" * 32, each, each.user, 9, 8, 0, 0, 1, 2) for each in clients
            ),
        )

    hostile = outline(facts_of(names))
    plain = outline(facts_of([(f"u{n}", f"c{n}") for n in range(len(names))]))

    assert Counter(hostile.tags) == Counter(plain.tags)
    assert {name for name, _ in hostile.attributes} == {name for name, _ in plain.attributes}


def test_markup_in_a_name_is_shown_as_text() -> None:
    """The reader sees what the client sent."""
    name = '<script>"><img src=x>'
    use = ClientUse(ClientName(name, "c"), 10, 10, 9, 90, 9, f"user={name}", 1.0)

    assert name in outline(replaced(empty_facts(), clients=(use,))).text
