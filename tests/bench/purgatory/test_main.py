"""The command."""

from bench.harness import BenchError
from bench.purgatory import __main__ as command
from bench.purgatory.__main__ import main

SHORT = ["--requests", "2000", "--rates", "40000,105000"]


def test_it_writes_its_section_and_leaves_the_rest(tmp_path, capsys):
    """From the draws to the picture, with two candidates; a second time it replaces what it wrote."""
    results = tmp_path / "RESULTS.md"
    results.write_text("# Benchmark results\n")
    for _ in range(2):
        assert main([*SHORT, "--candidates", "wheel,heap", "--out", str(tmp_path)]) == 0
        text = results.read_text()
        assert text.startswith("# Benchmark results\n")
        assert text.count("## The request purgatory") == 1
    assert "| heap |" in text
    assert "not measured" in text
    assert (tmp_path / "purgatory.svg").read_text().startswith("<svg")
    assert "written: " in capsys.readouterr().out


def test_a_disturbed_run_is_repeated(monkeypatch, tmp_path):
    """Twice at most, and the best counts; not a run that used its core up, nor a candidate without a goal."""
    played: list[str] = []

    def play(name, stem, where=None):
        played.append(name)
        actual = {"wheel": (500.0, 995.0), "linked": (400.0,), "heap": (700.0,)}
        nth = played.count(name) - 1
        return {
            "requests": 10,
            "target": 1000.0,
            "actual": actual[name][nth % len(actual[name])],
            "cores": 0.95 if name == "heap" else 0.3,
            "cpu_us": 1.0,
            "resident_bytes": 1e6,
        }

    monkeypatch.setattr(command, "play", play)
    names = "wheel,linked,heap"
    rates = ["--requests", "2000", "--rates", "40000"]
    assert main([*rates, "--candidates", names, "--out", str(tmp_path)]) == 0
    assert [played.count(name) for name in ("wheel", "linked", "heap")] == [4, 2, 2]
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.count("| 1,000 | 995 |") == text.count("| 1,000 | **400** |") == 2


def test_without_the_projects_own_wheel_it_fails(monkeypatch, tmp_path):
    """The exit code says so; what was found is written."""

    def play(name, stem, where=None):
        raise BenchError("broken")

    monkeypatch.setattr(command, "play", play)
    rates = ["--requests", "2000", "--rates", "40000"]
    assert main([*rates, "--candidates", "wheel", "--out", str(tmp_path)]) == 1
    assert "broken" in (tmp_path / "RESULTS.md").read_text()
