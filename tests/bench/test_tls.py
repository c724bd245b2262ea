"""The TLS bench: the section that it writes, and one short run."""

import shutil

import pytest

from bench import tls
from bench.build import maybe_compiler
from bench.measure import measure, running_bench
from bench.shapes import choose
from bench.variants import HAPROXY, SLUICE

SMALL = choose("small-10")


@pytest.mark.skipif(
    maybe_compiler() is None or shutil.which("haproxy") is None or shutil.which("openssl") is None,
    reason="needs a C compiler, HAProxy and openssl",
)
def test_both_proxies_terminate_tls_and_pass_the_same_requests() -> None:
    """A short run has samples of both, and no failure."""
    with running_bench(made=tls.TlsBench) as bench:
        samples = measure(bench, tls.variants(None), SMALL, 1, 0.2, 0.1, 1)
    assert not samples.failures
    assert {each.variant for each in samples.all()} == {SLUICE, HAPROXY}
    assert all(each.requests > 0 and each.cpu_us > 0 for each in samples.all())
