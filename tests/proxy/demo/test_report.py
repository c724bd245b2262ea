"""Report: one file that shows a whole run, to a person and to a screen reader, and loads nothing."""

import random
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from proxy.admin.schemas import Quantiles, State
from proxy.demo.checks import Evidence, Finding
from proxy.demo.console import ClientRow
from proxy.demo.experiment import Comparison, Condition, Sample
from proxy.demo.report import (
    Run,
    html_of,
    write_page,
)
from tests.support.pages.made_up_states import made_up

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "link", "path", "polygon", "circle"}
DRAWN = {"path", "circle", "polygon"}


def comparison(rounds: int = 7) -> Comparison:
    """Return one whose conditions differ as they do in a real run."""
    dice = random.Random(5)
    made = Comparison(limit_per_s=50)
    typical = {
        Condition.ALONE: Sample(200, 6.4, 8.6, 0),
        Condition.NO_QUOTA: Sample(199, 8.7, 18.3, 11_116),
        Condition.QUOTA: Sample(200, 6.3, 8.7, 50),
    }
    for _ in range(rounds):
        for condition, each in typical.items():
            made.add(condition, Sample(*(value * dice.uniform(0.94, 1.08) for value in each)))
    return made


def state(**other: object) -> State:
    """Return what a Sluice's dashboard may have shown: one throttled client of two, and hostile names."""
    made = msgspec.convert(made_up(40), State)
    noisy, polite = made.principals[:2]
    replace = msgspec.structs.replace
    noisy = replace(noisy, client_id="noisy", throttled=412, throttle_ms=Quantiles(180.0, 940.5))
    polite = replace(polite, client_id="polite", throttled=0)
    decisions = [replace(each, what="throttled", detail=HOSTILE) for each in made.decisions]
    made = replace(made, principals=[noisy, polite], decisions=decisions)
    return replace(made, **other)


def run(**other: object) -> Run:
    """Return a run with an experiment and a check that failed; `other` replaces parts of its evidence or of it."""
    fields = {
        name: other.pop(name) for name in list(other) if name in Evidence.__dataclass_fields__
    }
    evidence = {
        "brokers": {1: "127.0.0.1:41001", 2: "127.0.0.1:41002", 3: "127.0.0.1:41003"},
        "advertised": {1: "127.0.0.1:20002", 2: "127.0.0.1:20003", 3: "127.0.0.1:20004"},
        "bootstrap_port": 20_000,
        "producers": {},
        "readers": {},
        "comparison": comparison(),
        "client_ports": {
            "producer-1": {20_000, 20_002, 20_004},
            "reader-1": {20_003, 9092},
            "noisy": {20_002, 20_003, 20_004},
        },
        **fields,
    }
    made = Run(
        rows=[
            ClientRow("producer-1", "kafka-python", 99.6, 100.2, 1234, 0, 1.26, 4.9),
            ClientRow("producer-2", "librdkafka", 84, 2000.4, 16_003, 0, 5.1, 9.7),
            ClientRow("reader-1", "librdkafka", 420, 1025, 0, 5678, 9.9, 31.0),
        ],
        evidence=Evidence(**evidence),  # type: ignore[arg-type]  # parts of it are replaced by tests
        findings=[
            Finding("nothing lost", True, "17,237 consumed of 17,237 acked"),
            Finding("order intact", False, f"consumed out of order: {HOSTILE}"),
            Finding("as fast as alone", None, "this machine is too busy"),
        ],
        state=state(),
        about=("21 November 2026, 12:40", "43 s", "Linux, 2 CPUs"),
    )
    return made._replace(**other)  # type: ignore[arg-type]  # same


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
        """Record what it loads."""
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
        """The tag that was opened last is closed first."""
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Only drawings close themselves."""
        assert tag in DRAWN
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        """Record the text."""
        self.words.append(data)


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    """Every tag is closed; there is no script, and nothing that a browser would fetch."""
    read = Reader(html_of(run()))

    assert not read.open
    assert "script" not in read.tags
    assert read.loads == ["data:,"]  # an empty icon, so that no browser asks for one
    assert "url(" not in html_of(run())


def test_the_page_has_what_the_terminal_showed() -> None:
    """Verdict, findings, clients, medians and addresses are all there."""
    text = " ".join(Reader(html_of(run())).words)

    for part in (
        *("Verdict: failed (order intact); not judged: as fast as alone", "17,237 consumed"),
        *("producer-1", "16,003", "1.3", "5,678", "too busy"),
        *("noisy, quota 50/s", "noisy, no quota", "polite records/s"),
        *("bootstrap :20000, broker 1 :20002, broker 3 :20004", "127.0.0.1:41003"),
        *("21 November 2026, 12:40", "Linux, 2 CPUs"),
        *("412", "940.5", "throttled"),
    ):
        assert part in text, part


def test_every_sample_is_a_mark() -> None:
    """The drawings have one dot for each sample's p50 and rate, and one ring for its p99."""
    page = html_of(run(comparison=comparison(rounds=4)))

    assert page.count('<circle class="ring"') == 3 * 4 + 1  # and the one in the key
    assert page.count('<circle class="dot"') == 3 * 4 + 2 * 4 + 1


def test_only_ports_of_sluice_are_listed() -> None:
    """A client's connections to other ports are for the verdict, not for this table."""
    words = Reader(html_of(run())).words

    assert words[words.index("reader-1", words.index("ports")) + 1] == "broker 2 :20003"


def test_every_drawing_has_a_description() -> None:
    """A screen reader says what each drawing shows."""
    assert not Reader(html_of(run())).nameless


def test_text_of_other_processes_is_only_text() -> None:
    """Markup in a finding's detail, or in what Sluice observed, is shown and does nothing."""
    page = html_of(run())

    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 1 + 5


def test_missing_parts_are_left_out() -> None:
    """Without an experiment, or Sluice's own figures, their sections are missing; the rest is there."""
    text = " ".join(Reader(html_of(run(comparison=None, state=None))).words)

    assert "A noisy neighbour" not in text
    assert "What Sluice itself observed" not in text
    assert "producer-1" in text


def test_a_state_without_history_can_be_shown() -> None:
    """Without history, decisions or throttled clients the page is still well-formed."""
    read = Reader(html_of(run(state=state(principals=[], decisions=[], history=[]))))

    assert not read.open
    assert "The last decisions" not in read.words


@pytest.mark.parametrize(
    ("findings", "kind"),
    [
        ([Finding("a", True, "")], "ok"),
        ([Finding("a", True, ""), Finding("b", None, "")], "unsure"),
        ([Finding("a", None, ""), Finding("b", False, "")], "bad"),
    ],
)
def test_the_verdict_has_the_colour_of_its_worst_finding(
    findings: list[Finding], kind: str
) -> None:
    """A failure is never shown as anything better."""
    assert f'<p class="verdict {kind}">' in html_of(run(findings=findings))


def test_the_page_is_written_whole(tmp_path: Path) -> None:
    """Folders are made; an older page is replaced."""
    path = tmp_path / "reports" / "demo.html"
    write_page(path, run())
    write_page(path, run(about=("again",)))

    assert path.read_text("utf-8") == html_of(run(about=("again",)))
