"""The TLS bench: the section that it writes, and one short run."""

import shutil

import pytest

from bench import tls
from bench.build import maybe_compiler
from bench.figures import Sample, Samples
from bench.measure import measure, running_bench
from bench.shapes import choose
from bench.variants import COMPILED, HAPROXY, SLUICE

SMALL = choose("small-10")


def test_the_section_has_a_row_for_each_proxy_and_a_goal_for_each_shape() -> None:
    """The efficiency is computed inside the round."""
    ours = Sample("small-10", SLUICE, 0, 1000, 1.0, 2e6, 40.0, 100, 200)
    theirs = Sample("small-10", HAPROXY, 0, 1000, 1.0, 2e6, 30.0, 100, 200)
    built = Sample("small-10", COMPILED, 0, 1000, 1.0, 2e6, 60.0, 100, 200)
    text = tls.section(Samples([ours, theirs, built]), SMALL, {"date": "today"})
    assert (
        "| sluice against HAProxy with TLS, 100 B, 10 connections | ≥ 0.7 |  | 0.75 | met |" in text
    )
    assert "10 connections | ≥ 0.7 | ≥ 0.9 | 0.50 | **NOT MET** |" in text
    assert "| 100 B, 10 connections | haproxy | 30.00 | 1,000 | 2.0 | 100 | 200 |" in text
    assert "| date | today |" in text


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
