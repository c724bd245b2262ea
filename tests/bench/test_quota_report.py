"""The quotas' section of RESULTS.md."""

import pytest

from bench.quota_report import LIMIT, Both, Client, Found, Way, section


def way(rate: float) -> Way:
    """Return a way of asking that got this rate."""
    return Way("one connection", rate, 0.01, 80.0, None)


def client(rate: float = 20.0, reconnects: int = 0, errors: int = 0) -> Client:
    """A client with a limit of 20."""
    return Client("Java", True, 20.0, rate, 0.3, reconnects, errors, (12.0, 50.0), (None, 50.0))


@pytest.mark.parametrize(
    ("share", "kept"), [(0.89, False), (0.9, True), (1.0, True), (1.05, True), (1.06, False)]
)
def test_a_limit_is_kept_from_both_sides(share: float, kept: bool) -> None:  # noqa: FBT001 - a table
    """Ten percent too little is no better kept than five too much, and the table says so."""
    row = way(share * LIMIT)

    assert row.kept is kept
    assert ("**NOT KEPT**" in section(Found(ways=[row]))) is not kept


def test_a_client_must_have_its_limit_in_peace() -> None:
    """The right rate with a reconnect or an error is not enough."""
    assert client().kept
    assert not client(rate=17.9).kept
    assert not client(reconnects=1).kept
    assert not client(errors=1).kept


def test_every_table_has_as_many_cells_in_each_row() -> None:
    """A row that is too short would shift figures under the wrong heading."""
    found = Found([way(100)], [client()], [Both(5, 20, 5.01)], {"Kafka": "4"})

    tables = [block for block in section(found).split("\n\n") if block.startswith("|")]

    assert len(tables) == 4
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
    assert "| - / 50 |" in tables[1], "what a client does not tell is not made up"
