"""Whether a client kept to its limit."""

from bench.quota import LIMIT, Client, Way


def way(rate: float) -> Way:
    """Return a way of asking that got this rate."""
    return Way("one connection", rate, 0.01, 80.0, None)


def client(rate: float = 20.0, reconnects: int = 0, errors: int = 0) -> Client:
    """A client with a limit of 20."""
    return Client("Java", True, 20.0, rate, 0.3, reconnects, errors, (12.0, 50.0), (None, 50.0))


def test_a_limit_is_kept_from_both_sides() -> None:
    """Ten percent too little is no better kept than five too much."""
    shares = {0.89: False, 0.9: True, 1.0: True, 1.05: True, 1.06: False}

    assert {share: way(share * LIMIT).kept for share in shares} == shares


def test_a_client_must_have_its_limit_in_peace() -> None:
    """The right rate with a reconnect or an error is not enough."""
    assert client().kept
    assert not client(rate=17.9).kept
    assert not client(reconnects=1).kept
    assert not client(errors=1).kept
