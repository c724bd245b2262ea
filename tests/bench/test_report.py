"""RESULTS.md."""

from bench.figures import Footprint, Sample, Samples
from bench.report import Results, markdown, picture


def results(*names: str) -> Results:
    """Two equal rounds of one shape through each variant."""
    samples = Samples(
        [
            Sample("small-10", name, nth, 1000, 1.0, 167_000, cpu_us, 100.0 + cpu_us, 300.0)
            for name, cpu_us in zip(names, (0.0, 12.0, 8.0), strict=False)
            for nth in range(2)
        ]
    )
    foot = {"sluice": Footprint("sluice", (0.2,), (0.3,), {0: 30_000_000, 1000: 32_000_000}, 0.01)}
    return Results(samples, foot, dict.fromkeys(names, "1.0"), {"cores": "2"}, {"date": "today"})


def test_every_table_has_as_many_cells_in_each_row() -> None:
    """A row that is too short would shift figures under the wrong heading."""
    text = markdown(results("direct", "sluice", "haproxy"))
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1


def test_measured_and_unmeasured_goals_are_told_apart() -> None:
    """A missed goal shows its figure; what was not measured says so."""
    text = markdown(results("direct", "sluice", "haproxy"))
    assert "10 connections | ≥ 0.7 |  | 0.67 | **NOT MET** |" in text
    assert "10 connections | ≥ 0.9 | ≥ 1 |  | not measured |" in text


def test_only_measured_shapes_are_shown() -> None:
    """A shape that no variant ran has no table."""
    text = markdown(results("direct", "sluice", "haproxy"))
    assert "## 100 B, 10 connections" in text
    assert "## 100 B, 100 connections" not in text


def test_failures_are_told_with_their_reason() -> None:
    """A variant that failed is in the report, its bars cannot break the table."""
    found = results("direct", "sluice", "haproxy")
    found.samples.failures["small-10", "nginx"] = "load: a | b"
    assert "| small-10 | nginx | load: a / b |" in markdown(found)


def test_the_picture_compares_with_the_relay_where_there_is_no_haproxy() -> None:
    """The yardstick is named."""
    assert "against haproxy" in picture(results("direct", "sluice", "haproxy"))
    assert "against relay" in picture(results("direct", "sluice", "relay"))


def test_the_picture_has_both_builds_and_leaves_their_quotas_out() -> None:
    """Their cost is in the tables."""
    made = results("sluice+quota", "sluice-compiled", "haproxy")
    text = picture(made)
    assert ">sluice-compiled<" in text
    assert "quota" not in text
