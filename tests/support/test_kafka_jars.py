"""The lock of jars is read strictly."""

import pytest

from tests.support.kafka_jars import KAFKA_LOCK, KAFKA_VERSION, Jar, read_lock


def test_the_checked_in_lock_is_whole() -> None:
    """Every line is understood, no jar is there twice, and broker and tools are of one version."""
    jars = read_lock(KAFKA_LOCK.read_text())
    assert len({jar.file_name for jar in jars}) == len(jars)
    ours = {jar.artifact: jar.version for jar in jars if jar.group == "org.apache.kafka"}
    assert {"kafka_2.13", "kafka-tools", "kafka-clients"} <= ours.keys()
    assert set(ours.values()) == {KAFKA_VERSION}


def test_a_classifier_is_part_of_the_name() -> None:
    """`group:artifact:version:classifier` names another file than the plain jar."""
    (jar,) = read_lock(f"# comment\n\norg.example:thing:1.0:test {'0' * 64}\n")
    assert jar == Jar("org.example", "thing", "1.0", "test", "0" * 64)
    assert jar.repository_path.as_posix() == "org/example/thing/1.0/thing-1.0-test.jar"


@pytest.mark.parametrize("line", ["org.example:thing 00", f"org.example:thing:1 {'0' * 63}", "x"])
def test_a_malformed_line_is_named(line: str) -> None:
    """A lock that cannot be trusted is not half used."""
    with pytest.raises(ValueError, match="not a line"):
        read_lock(line)
