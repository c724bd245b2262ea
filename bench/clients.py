"""`python -m bench.clients`: the proxies under real clients; writes its section of RESULTS.md.

The clients are Kafka's own performance tools (Java) and librdkafka, before a real Kafka of one broker. Nothing is
pinned to a core. All proxies run at once; in each round each case runs through one after the other, in shuffled order,
and CPU is read while the records after the warm-up flow. System calls are counted in further runs, which that slows.
"""

import argparse
import contextlib
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.client_cases import choose
from bench.client_runs import Clients
from bench.clients_report import Found, goals, section
from bench.goals import tell
from bench.harness import BenchError
from bench.harness.command import first_warm_s, options, peer_options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import describe, load_average, today
from bench.harness.markdown import write_section
from bench.peer_commands import maybe_haproxy, parse_peer
from bench.variants import (
    COMPILED,
    COMPILED_FEATURES,
    DIRECT,
    HAPROXY,
    SLUICE,
    Variant,
    choose_variants,
    compiled,
    first_line,
    sluice_command,
    with_features,
)
from tests.support.kafka.java import KafkaUnavailableError, kafka_java
from tests.support.kafka.kafka_jars import KAFKA_VERSION

FIRST_WARM_S: Final = 30.0
"""The default of `--first-warm` with a peer."""
COUNTED: Final = (COMPILED, HAPROXY)
"""The variants whose system calls are counted."""
COUNT_SECONDS: Final = 2.0


def variants(peers: list[str], wheel: Path | None = None) -> list[Variant]:
    """Return no proxy, Sluice, the compiled wheel if given, HAProxy if it is installed, and the peers.

    Raises:
        ValueError: a peer is not NAME[@VERSION]=COMMAND.
    """
    program = Path(sys.executable).with_name("sluice")
    version = first_line([str(program), "version"])
    ours = Variant(SLUICE, version, sluice_command(program, nodes="1-1"), peer=False)
    found = [Variant(DIRECT, "clients and broker alone", None), ours]
    if wheel is not None:
        found.append(compiled(program, wheel, nodes="1-1"))
        found.append(with_features(program, wheel, nodes="1-1"))
    found += maybe_haproxy()
    return found + [parse_peer(text) for text in peers]


def measure(given: argparse.Namespace) -> Found:
    """Run what the command line asks for.

    Raises:
        BenchError: there is no Kafka, or a proxy does not start.
        ValueError: a case is unknown.
    """
    cases = choose(given.cases)
    try:
        java = kafka_java()
    except KafkaUnavailableError as error:
        raise BenchError(f"no real Kafka: {error}") from error
    order = random.Random(given.seed)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-clients-")))
        wheel = _maybe_wheel(folder / "wheel", given.variants)
        found = Found(cases, choose_variants(variants(given.peer, wheel), given.variants))
        clients = Clients(folder, java)
        running = stack.enter_context(clients.started(found.variants))
        if warm := first_warm_s(given, FIRST_WARM_S):
            for each in found.variants:
                if each.given:
                    clients.warm_up(running[each.name], warm)
        for nth in range(given.rounds):
            for case in order.sample(cases, len(cases)):
                for name in order.sample(list(running), len(running)):
                    with _left_out_if_it_fails(f"round {nth + 1}, {name}"):
                        found.samples.add(clients.run(case, running[name], nth, given.seconds))
            print(f"round {nth + 1} of {given.rounds}", flush=True)
        for case in cases:
            for name in running.keys() & set(COUNTED):
                with _left_out_if_it_fails(f"system calls, {name}"):
                    if calls := clients.count(case, running[name], COUNT_SECONDS):
                        found.calls[case.name, name] = calls
    return found


@contextlib.contextmanager
def _left_out_if_it_fails(what: str) -> Iterator[None]:
    """Print a failure and continue: one run of hundreds must not cost the others."""
    try:
        yield
    except BenchError as error:
        print(f"left out: {what}: {error}", flush=True)


def _maybe_wheel(folder: Path, names: str) -> Path | None:
    """Return `folder` with the compiled build in it; None if it is not among the names, or cannot be built here."""
    if names and not {COMPILED, COMPILED_FEATURES} & set(names.split(",")):
        return None
    if reason := missing():
        print(f"without the compiled build: {reason}", flush=True)
        return None
    unpack_compiled(folder)
    return folder


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = options("bench.clients", __doc__, rounds=3, seconds=5.0, seed=1)
    parser.add_argument("--cases", default="", help="comma-separated, or patterns; default: all")
    parser.add_argument("--variants", default="", help="comma-separated; default: all")
    peer_options(parser)
    given = parser.parse_args(arguments)
    found = measure(given)
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.seconds:g} s each",
        "before the first round": f"{first_warm_s(given, FIRST_WARM_S):g} s for each given peer",
        "load average at the end": load_average(),
        "Kafka": KAFKA_VERSION,
        **describe(),
        **{each.name: each.version for each in found.variants},
    }
    write_section(given.out, "clients", section(found, facts))
    tell(goals(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
