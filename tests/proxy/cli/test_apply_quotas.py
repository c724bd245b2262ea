"""`sluice quotas apply`: the difference that it shows, and the changes that it makes."""

import json
from collections.abc import Iterator, Sequence

import pytest
from click.testing import CliRunner, Result

from policies.quota.alter import Change
from policies.quota.entity import DEFAULT_NAME, ClientQuotas, QuotaEntity
from policies.quota.quota_file import QuotaFile, QuotaFileLine, render_quota_file
from proxy.cli.main import main
from tests.support.messages.quota_messages import ALTER
from tests.support.quotas.quota_book import QuotaServer

RATE, BYTES = "request_rate", "producer_byte_rate"
ALICE, BOB, EVERYONE = QuotaEntity("alice"), QuotaEntity("bob", "report"), QuotaEntity(DEFAULT_NAME)
FILE = """
version: 1
quotas:
- {user: alice, request_rate: 110, producer_byte_rate: 1048576, evidence: {p99: 100}}
- {user: bob, client_id: report, request_rate: 0.5}
- {user: <default>, request_rate: 7}
"""


@pytest.fixture
def server() -> Iterator[QuotaServer]:
    with QuotaServer() as running:
        yield running


def apply(server: QuotaServer, text: str, *options: str) -> Result:
    typed = ["quotas", "apply", "--bootstrap", server.server, "-", *options]
    return CliRunner(env={"SLUICE_CONFIG": None}).invoke(main, typed, input=text)


def live(server: QuotaServer) -> dict[QuotaEntity, dict[str, float]]:
    return {entity: dict(limits) for entity, limits in server.book.quotas.overrides.items()}


def test_the_difference_is_shown_and_made(server: QuotaServer) -> None:
    """New limits and changed ones; one that has its value stays as it is, so a second run sends no change."""
    book: ClientQuotas = server.book.quotas
    book.set(ALICE, RATE, 100.0)
    book.set(EVERYONE, RATE, 7.0)
    book.set_override(BOB, RATE, 2.0)
    result = apply(server, FILE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["change", "user", "client", "id", "quota", "now", "new"],
        ["change", "alice", "-", "request_rate", "100", "110"],
        ["add", "alice", "-", "producer_byte_rate", "-", "1048576"],
        ["change", "bob", "report", "request_rate", "2", "0.5"],
        ["1", "to", "add,", "2", "to", "change,", "0", "to", "remove,", "1", "unchanged."],
        ["Done."],
    ]
    assert live(server) == {ALICE: {RATE: 110.0, BYTES: 1048576.0}, BOB: {RATE: 0.5}}
    server.book.fault = OSError(28, "No space left on device")
    result = apply(server, FILE)
    assert result.exit_code == 0
    assert result.stdout == "0 to add, 0 to change, 0 to remove, 4 unchanged.\n"


def test_a_dry_run_shows_the_difference_only(server: QuotaServer) -> None:
    """The server validates it; a refusal shows too."""
    result = apply(server, FILE, "--dry-run")
    assert result.exit_code == 0
    assert "4 to add" in result.stdout
    assert result.stdout.endswith("The changes are valid. Nothing was changed (--dry-run).\n")
    assert live(server) == {}
    with QuotaServer(admins=["operator"]) as other:
        result = apply(other, FILE, "--dry-run")
        assert result.exit_code == 1
        assert "{user: alice}: root may not alter quotas" in result.stderr


def test_prune_removes_live_quotas_that_the_file_does_not_have(server: QuotaServer) -> None:
    """Also another limit of an entity of the file. Quotas of files cannot be removed live, so they stay."""
    carol = QuotaEntity("carol")
    server.book.quotas.set(carol, RATE, 1.0)
    server.book.quotas.set_override(carol, BYTES, 2.0)
    server.book.quotas.set_override(ALICE, "consumer_byte_rate", 3.0)
    assert apply(server, FILE).exit_code == 0
    assert live(server)[carol] == {BYTES: 2.0}
    result = apply(server, FILE, "--prune", "--json")
    said = json.loads(result.stdout)
    assert [(each["change"], each["user"], each["quota"]) for each in said["changes"]] == [
        ("remove", "alice", "consumer_byte_rate"),
        ("remove", "carol", BYTES),
    ]
    assert said["changes"][1]["before"] == 2.0
    assert said["changes"][1]["after"] is None
    assert (said["unchanged"], said["dry_run"]) == (4, False)
    assert live(server).keys() == {ALICE, BOB, EVERYONE}


def test_one_invalid_change_prevents_all(
    server: QuotaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each entity is judged by itself, so all are validated before the first is set."""
    monkeypatch.setattr("policies.quota.config.check_value", lambda _key, _value: None)
    result = apply(server, FILE.replace("0.5", "-5"))
    assert result.exit_code == 1
    assert "Refused: 1 of 3 entities:" in result.stderr
    assert (
        "{user: bob, client_id: report}: Quota request_rate must be greater than 0" in result.stderr
    )
    assert live(server) == {}


def test_a_change_that_cannot_be_saved_is_an_error(server: QuotaServer) -> None:
    """Nothing was set."""
    server.book.fault = OSError(28, "No space left on device")
    result = apply(server, FILE)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert live(server) == {}


def test_a_limit_without_effect_is_a_warning(server: QuotaServer) -> None:
    """The server says so; the quota is set."""
    text = "version: 1\nquotas: [{client_id: noisy, request_rate: 1}]"
    server.book.quotas.set(EVERYONE, RATE, 5.0)
    result = apply(server, text)
    assert result.exit_code == 0
    assert "warning: request_rate is set, but it holds for no client" in result.stderr


def test_many_quotas_need_several_requests(
    server: QuotaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has no more array elements than Sluice takes; here ten entities."""
    monkeypatch.setattr("proxy.cli.kafka_quotas.MAX_ELEMENTS", 30)
    lines = tuple(QuotaFileLine(user=f"u{n}", request_rate=n + 1) for n in range(25))
    result = apply(server, render_quota_file(QuotaFile(quotas=lines)))
    assert result.exit_code == 0, result.stderr
    assert len(live(server)) == 25
    assert server.seen[ALTER, 1] == 6  # three to validate, three to change


def test_a_failure_in_between_says_how_much_was_made(
    server: QuotaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes of earlier requests stay; a second run makes the rest."""
    monkeypatch.setattr("proxy.cli.kafka_quotas.MAX_ELEMENTS", 6)
    change = server.book.change

    def change_all_but_the_default(changes: Sequence[Change], now_ms: int) -> None:
        if any(each.entity == EVERYONE for each in changes):
            raise OSError(28, "No space left on device")
        change(changes, now_ms)

    monkeypatch.setattr(server.book, "change", change_all_but_the_default)
    result = apply(server, FILE)
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert "(changed before: 2 of 3 entities; run it again)" in result.stderr
    assert live(server).keys() == {ALICE, BOB}
    monkeypatch.undo()
    assert "1 to add, 0 to change, 0 to remove, 3 unchanged." in apply(server, FILE).stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 3\nquotas: []", "version (standard input:1): found 3, expected 1, the latest"),
        ("version: 1\nquotas: [{user: a, rate: 1}]", "quotas[0].rate (standard input:2): found an"),
        ("[", "this is not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(
    server: QuotaServer, text: str, words: str
) -> None:
    """Every mistake is printed with its line; the exit code is 2."""
    result = apply(server, text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
