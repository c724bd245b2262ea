"""The fixtures that the tests of the log share."""

from tests.support.processes.log_lines import lines  # noqa: F401 - a fixture
