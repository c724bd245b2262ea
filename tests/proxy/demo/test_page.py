"""Page: one file that tells all of a run, to a person and to a screen reader, and loads nothing."""

from __future__ import annotations

import random
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from proxy.demo.board import Row
from proxy.demo.comparison import Arm, Comparison, Sample
from proxy.demo.dashboard import Decision, Delays, Point, Principal, Seen
from proxy.demo.page import Run, html_of, write
from proxy.demo.verdict import Check

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "link", "br", "path", "rect", "circle"}
DRAWN = {"path", "circle", "rect"}


def comparison(rounds: int = 7) -> Comparison:
    """Return one whose arms differ as they do in a real run."""
    dice = random.Random(5)
    made = Comparison(limit_per_s=50)
    typical = {
        Arm.ALONE: Sample(200, 6.4, 8.6, 0),
        Arm.WITHOUT: Sample(199, 8.7, 18.3, 11_116),
        Arm.WITH: Sample(200, 6.3, 8.7, 50),
    }
    for _ in range(rounds):
        for arm, each in typical.items():
            made.add(arm, Sample(*(value * dice.uniform(0.94, 1.08) for value in each)))
    return made


def seen() -> Seen:
    """Return what a Sluice may have told."""
    return Seen(
        principals=[
            Principal("demo", "noisy", 412, 91_000, Delays(180.0, 940.5)),
            Principal("demo", "polite", 0, 0, Delays()),
        ],
        decisions=[
            Decision(1_790_000_000_000 + at, "noisy", "Produce", "throttled", 180 + at, HOSTILE)
            for at in range(30)
        ],
        history=[
            Point(1_790_000_000_000 + 1000 * at, 300 + 9000 * (at % 9 > 5), at % 5, 9 + at // 20)
            for at in range(42)
        ],
    )


def run(**other: object) -> Run:
    """Return a run in which everything was played and one check failed."""
    made = Run(
        rows=[
            Row("producer-1", "kafka-python", 99.6, 100.2, 1234, 0, 1.26, 4.9),
            Row("producer-2", "librdkafka", 84, 2000.4, 16_003, 0, 5.1, 9.7),
            Row("reader-1", "librdkafka", 420, 1025, 0, 5678, 9.9, 31.0),
        ],
        comparison=comparison(),
        checks=[
            Check("nothing lost", True, "17,237 consumed of 17,237 acked"),
            Check("order intact", False, f"consumed out of order: {HOSTILE}"),
            Check("untouched", None, "this machine is too busy"),
        ],
        seen=seen(),
        brokers={1: "127.0.0.1:41001", 2: "127.0.0.1:41002", 3: "127.0.0.1:41003"},
        advertised={1: "127.0.0.1:20002", 2: "127.0.0.1:20003", 3: "127.0.0.1:20004"},
        bootstrap_port=20_000,
        client_ports={
            "producer-1": {20_000, 20_002, 20_004},
            "reader-1": {20_003, 9092},
            "noisy": {20_002, 20_003, 20_004},
        },
        about=("21 November 2026, 12:40", "43 s", "Linux, 2 CPUs"),
    )
    return made._replace(**other)  # type: ignore[arg-type]


class Reader(HTMLParser):
    """Reads the page as a strict browser would: what is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.nameless: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what it loads."""
        self.tags.append(tag)
        given = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [
            value for name, value in attrs if name in {"src", "href", "data"} and value is not None
        ]
        if tag == "svg" and not given.get("aria-label") and given.get("aria-hidden") != "true":
            self.nameless.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        """What was opened last is closed first."""
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Only drawings close themselves."""
        assert tag in DRAWN
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        """What is read."""
        self.words.append(data)


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    """Every tag is closed; there is no script, and nothing that a browser would fetch."""
    read = Reader(html_of(run()))

    assert not read.open
    assert "script" not in read.tags
    assert read.loads == ["data:,"]  # an icon that is none, so that no browser asks for one
    assert "url(" not in html_of(run())


def test_it_tells_what_the_terminal_told() -> None:
    """Verdict, checks, clients, medians and addresses are all there."""
    text = " ".join(Reader(html_of(run())).words)

    for part in (
        *("Verdict: failed (order intact); not judged: untouched", "17,237 consumed", "too busy"),
        *("producer-1", "16,003", "1.3", "5,678"),
        *("noisy, quota 50/s", "noisy, no quota", "polite records/s"),
        *("bootstrap :20000", "broker 3 :20004", "broker 3 at 127.0.0.1:41003"),
        *("21 November 2026, 12:40", "Linux, 2 CPUs"),
        *("412", "940.5", "throttled"),
    ):
        assert part in text, part


def test_every_sample_is_a_mark() -> None:
    """The drawings hold one dot a sample and latency, and one ring."""
    page = html_of(run(comparison=comparison(rounds=4)))

    assert page.count('<circle class="ring"') == 3 * 4 + 1  # and the one in the key
    assert page.count('<circle class="dot"') == 3 * 4 + 2 * 4 + 1


def test_connections_are_those_that_were_seen() -> None:
    """A line is drawn for each port of Sluice that a client used, and for no other; and one a broker."""
    assert html_of(run()).count('class="wire"') == (3 + 1 + 3) + 3


def test_every_drawing_has_a_name() -> None:
    """Whoever cannot see a drawing is told what it shows."""
    assert not Reader(html_of(run())).nameless


def test_what_others_told_is_only_text() -> None:
    """Markup in a check's detail, or in what Sluice told, is shown and does nothing."""
    page = html_of(run())

    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_what_was_not_played_or_told_is_left_out() -> None:
    """Without the second part, or Sluice's own figures, their sections are not there; the rest is."""
    text = " ".join(Reader(html_of(run(comparison=None, seen=None))).words)

    assert "A noisy neighbour" not in text
    assert "What Sluice itself saw" not in text
    assert "producer-1" in text


def test_a_sluice_that_saw_nothing_can_be_shown() -> None:
    """No history, no decision, nobody throttled: the page is still well-formed."""
    read = Reader(html_of(run(seen=Seen([], [], []))))

    assert not read.open
    assert "Its last decisions" not in read.words


@pytest.mark.parametrize(
    ("checks", "kind"),
    [
        ([Check("a", True, "")], "ok"),
        ([Check("a", True, ""), Check("b", None, "")], "unsure"),
        ([Check("a", None, ""), Check("b", False, "")], "bad"),
    ],
)
def test_the_verdict_is_coloured_by_its_worst_check(checks: list[Check], kind: str) -> None:
    """A failure is never shown as anything better."""
    assert f'<p class="verdict {kind}">' in html_of(run(checks=checks))


def test_it_is_written_whole(tmp_path: Path) -> None:
    """Folders are made; an older page is replaced."""
    path = tmp_path / "reports" / "demo.html"
    write(path, run())
    write(path, run(about=("again",)))

    assert path.read_text("utf-8") == html_of(run(about=("again",)))
