"""The made-up month: lines as Sluice writes them, numbered without gaps, the same each time."""

import json
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest
import zstandard

from bench.pipeline.made_log import DAYS, write_log
from bench.pipeline.made_month import TEAMS, Month, hour_of
from proxy.telemetry.usage_log.rows import ApiRow, EntityRow, InstanceRow, Row, TopicRow

WANTED = 65_000
KINDS: dict[str, type[Row]] = {
    "entity": EntityRow,
    "api": ApiRow,
    "topic": TopicRow,
    "instance": InstanceRow,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a day of one instance."""
    made = tmp_path_factory.mktemp("made")
    write_log(made, Month(WANTED, 12, instances=1))
    return made


def rows_of(folder: Path, family: str) -> list[Row]:
    """Return the rows of a family, read by the types of the proxy, which know all columns."""
    rows: list[Row] = []
    for file in sorted((folder / DAYS).rglob(f"{family}-*.jsonl.zst")):
        lines = zstandard.ZstdDecompressor().decompress(file.read_bytes()).splitlines()
        rows += [msgspec.json.decode(line, type=KINDS[family]) for line in lines]
    return rows


def test_a_month_has_about_the_rows_that_were_asked_for(folder: Path) -> None:
    """They are told by family, with the requests of all clients."""
    told = json.loads((folder / "README").read_text())

    assert sum(told[family] for family in KINDS) == pytest.approx(WANTED, rel=0.1)
    assert told["files"] == len(list(folder.rglob("*.zst")))
    for family in KINDS:
        assert len(rows_of(folder, family)) == told[family]
    assert sum(row.requests for row in rows_of(folder, "entity")) == told["requests"]


@pytest.mark.parametrize("family", KINDS)
def test_sequence_numbers_have_no_gaps_within_a_start_of_the_process(
    folder: Path, family: str
) -> None:
    """The process starts anew once on the first day, and rows are in the order of their seconds."""
    found = defaultdict(list)
    for row in rows_of(folder, family):
        found[row.boot].append(row)

    assert len(found) == 2
    for rows in found.values():
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        times = [row.ts_ms for row in rows]
        assert times == sorted(times)


def test_a_histogram_has_the_replies_of_its_row(folder: Path) -> None:
    """Some requests are throttled, and have a second one."""
    rows = rows_of(folder, "api")

    assert all(sum(row.upstream_n) == row.replied for row in rows)
    assert all(len(row.upstream_n) == len(row.upstream_i) for row in rows)
    assert any(row.throttle_n for row in rows)


def test_an_hour_is_the_same_whoever_makes_it() -> None:
    """Processes share the hours, and a run can be repeated."""
    month = Month(8_000_000, 72)
    one, two = (hour_of(month, 2, 61) for _ in range(2))

    for family, columns in one.items():
        assert len(columns["second"])
        for name, column in columns.items():
            assert column.tolist() == two[family][name].tolist()
    assert {client // (len(month.active) // TEAMS) for client in one["entity"]["client"]} <= set(
        range(TEAMS)
    )


@pytest.mark.parametrize("rows", [1_000, 10**10])
def test_a_fleet_that_cannot_have_so_many_rows_is_an_error(rows: int) -> None:
    """Every process has a row each second, and a client at most one."""
    with pytest.raises(ValueError, match=f"{rows} rows in 24 hours, expected 345600 to"):
        Month(rows, 24)
