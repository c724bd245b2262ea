"""The options that benchmarks share."""

import pytest

from bench.harness.command import first_warm_s, options, peer_options


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ([], 0.0),
        (["--peer", "a=b"], 5.0),
        (["--peer", "a=b", "--first-warm", "0"], 0.0),
        (["--first-warm", "2.5"], 2.5),
    ],
)
def test_variants_are_loaded_before_the_first_round_if_there_is_a_peer(
    arguments: list[str], seconds: float
) -> None:
    """A peer may be a Java process; the option is stronger than the default."""
    parser = options("bench.any", "Doc.")
    peer_options(parser)

    assert first_warm_s(parser.parse_args(arguments), 5.0) == seconds
