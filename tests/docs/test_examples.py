"""The example policy passes its own test, is found as an installed plug-in and is shown whole;
the example files are valid settings, and the timeline of the quotas matches the policy.
"""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from policies.api import Forward, Peer, Throttle
from policies.quota.config import QuotaConfig
from policies.quota.entity import QuotaEntity
from policies.quota.policy import Quota
from policies.testing import PolicyBench
from proxy.config.sources import load
from tests.support.processes.command_line import invoke

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATIONS = [
    each
    for folder in ("examples", "examples/access", "examples/security")
    for each in sorted((ROOT / folder).glob("*.yaml"))
    if not each.name.endswith(".cases.yaml")
]
ACCESS = sorted((ROOT / "examples" / "access").glob("*.cases.yaml"))
CLIENT_IDS = ROOT / "examples" / "client_ids"


@pytest.mark.parametrize(
    ("name", "tests"), [("client_ids", 3), ("ask_first", 4), ("cookbook", 47), ("tokens", 2)]
)
def test_an_example_plug_in_passes_its_own_test(name: str, tests: int) -> None:
    """The example's test runs as it stands, with nothing but Sluice and what the example names installed."""
    folder = ROOT / "examples" / name
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]

    ran = subprocess.run(
        [*command, "--rootdir", folder, "-c", "/dev/null", f"test_{name}.py"],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{tests} passed" in ran.stdout


def test_each_short_policy_is_in_the_guide() -> None:
    """The guide shows every policy of the cookbook; the build fails if a shown file does not exist."""
    guide = (ROOT / "docs" / "extend" / "writing-policies.md").read_text("utf-8")
    shown = set(re.findall(r'^--8<-- "examples/cookbook/(\w+)\.py"$', guide, re.MULTILINE))

    files = {each.stem for each in (ROOT / "examples" / "cookbook").glob("*.py")}
    assert shown == files - {"test_cookbook"}


def test_the_entry_point_names_the_policy() -> None:
    """The package registers the class that its module defines."""
    settings = tomllib.loads((CLIENT_IDS / "pyproject.toml").read_text("utf-8"))
    points = settings["project"]["entry-points"]["sluice.policies"]

    module, _, name = points["client_ids"].partition(":")

    assert settings["tool"]["setuptools"]["py-modules"] == [module]
    assert f"class {name}(Policy):" in (CLIENT_IDS / f"{module}.py").read_text("utf-8")


def test_each_example_file_is_valid(subtests: pytest.Subtests) -> None:
    """`sluice run` accepts each of them."""
    for file in CONFIGURATIONS:
        with subtests.test(file.name):
            load(file, {}, {})


@pytest.mark.parametrize("cases", ACCESS, ids=[each.name for each in ACCESS])
def test_the_rules_of_an_example_pass_their_cases(cases: Path) -> None:
    """`sluice access test` runs as the file says, and each rule decides a case."""
    rules = cases.with_name(cases.name.replace(".cases", ""))

    told = invoke("access", "test", "--config", rules, cases)

    assert (told.exit_code, told.stderr) == (0, "")
    assert re.fullmatch(r"[1-9]\d* cases, 0 failed\.\n", told.stdout)
    command = f"sluice access test {cases.relative_to(ROOT)} --config {rules.relative_to(ROOT)}"
    assert command in rules.read_text("utf-8")


def test_the_page_shows_what_the_commands_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `explain` and `show` of the page about the tools of access, with the example's own file."""
    page = (ROOT / "docs" / "use" / "access-tools.md").read_text("utf-8")
    blocks = re.findall(r"```console\n\$ sluice (access (?:explain|show) .*)\n((?:.+\n)+)```", page)
    monkeypatch.chdir(ROOT / "examples" / "access")

    assert len(blocks) == 2
    for command, shown in blocks:
        assert invoke(*command.split()).stdout == shown


def test_each_rule_set_has_cases() -> None:
    """None is shown that no test runs."""
    assert len(ACCESS) == 5
    rules = {each for each in CONFIGURATIONS if each.parent.name == "access"}
    assert rules == {each.with_name(each.name.replace(".cases", "")) for each in ACCESS}


def test_the_quotas_of_the_example_are_those_of_the_document() -> None:
    """The file and the page on quotas show the same lines, and the policy reads them as the page explains them."""
    entry = load(ROOT / "examples" / "quotas.yaml", {}, {}).config.policies[0]
    page = (ROOT / "docs" / "use" / "quotas.md").read_text("utf-8")
    lines = re.compile(r"^ +- (\{(?:user|client_id):.*\})$", re.MULTILINE)

    shown = lines.findall((ROOT / "examples" / "quotas.yaml").read_text("utf-8"))

    assert len(shown) == 4
    assert lines.findall(page)[:4] == shown
    bench = PolicyBench(Quota, {"quotas": entry.config["quotas"]})
    assert isinstance(bench.policy, Quota)
    assert isinstance(bench.policy.config, QuotaConfig)
    assert bench.policy.quotas.get(QuotaEntity("alice", "report"), "request_rate") == 20
    limits = {
        who: bench.policy.quotas.resolve("request_rate", *who)
        for who in (("alice", "report"), ("alice", "noisy"), ("bob", "noisy"))
    }
    assert [limit and limit.limit for limit in limits.values()] == [20, 100, 50]
    bytes_of_bob = bench.policy.quotas.resolve("producer_byte_rate", "bob", "noisy")
    assert bytes_of_bob is not None
    assert bytes_of_bob.tags == ("bob", "noisy")


def passed_each_second(enforcement: str, connections: int, seconds: int) -> list[int]:
    """Return how many requests pass each second if clients with a quota of ten send as soon as they may."""
    quota = {"user": "alice", "request_rate": 10}
    bench = PolicyBench(Quota, {"enforcement": enforcement, "quotas": [quota]})
    passed: Counter[int] = Counter()
    ready_ms: dict[int, int] = dict.fromkeys(range(connections), 0)
    who: dict[int, int] = {}

    def passes(session: int, exchange_id: int, verdict: object) -> None:
        del exchange_id
        passed[bench.now_ms // 1000] += 1
        throttle_ms = verdict.throttle_time_ms if isinstance(verdict, Throttle) else 0
        ready_ms[session] = bench.now_ms + max(1, throttle_ms)

    while bench.now_ms < seconds * 1000:
        for session in [s for s, at_ms in ready_ms.items() if at_ms <= bench.now_ms]:
            peer = Peer(session, "127.0.0.1", 50_000, client_id="c", user="alice")
            request = bench.request("Metadata")
            who[request.exchange_id] = session
            del ready_ms[session]
            verdict = bench.ask(request, peer)
            if isinstance(verdict, Forward | Throttle):
                reply = bench.reply(request, peer=peer)
                passes(session, request.exchange_id, max(verdict, reply, key=_length_ms))
        bench.advance(1)
        for _, request, verdict in bench.released:
            passes(who[request.exchange_id], request.exchange_id, verdict)
        bench.released.clear()
    return [passed[second] for second in range(seconds)]


def _length_ms(verdict: object) -> int:
    return verdict.throttle_time_ms if isinstance(verdict, Throttle) else 0


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
@pytest.mark.parametrize(("connections", "words"), [(1, "1 connection"), (50, "50 connections")])
def test_the_timeline_is_that_of_the_policy(enforcement: str, connections: int, words: str) -> None:
    """Each row of the table in docs/use/quota-enforcement.md equals the policy's count, second by second."""
    page = (ROOT / "docs" / "use" / "quota-enforcement.md").read_text("utf-8")
    row = re.search(rf"^\| {enforcement}, {words} \|([0-9 |]+)\|$", page, re.MULTILINE)
    assert row is not None
    shown = [int(cell) for cell in row[1].split("|")]

    assert passed_each_second(enforcement, connections, len(shown)) == shown
