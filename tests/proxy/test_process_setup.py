"""The process of `sluice run` is set up by that command, and by no other."""

import subprocess
import sys

SETUP = """
import sys
from proxy import process_setup
process_setup.prepare = lambda: sys.exit(f"prepared with {len(sys.modules)} modules")
sys.argv = ["sluice", *{words!r}]
from proxy.__main__ import main
main()
"""


def said_by(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SETUP.replace("{words!r}", repr(list(words)))],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_run_command_prepares_its_process():
    """With options before it, too: the command line is parsed, not searched for a word."""
    assert "prepared" in said_by("run", "--upstream", "localhost:9092")


def test_another_command_with_the_word_run_in_it_does_not():
    """A file, a user or a topic may have that name."""
    assert "prepared" not in said_by("diff", "run", "run")
    assert "prepared" not in said_by("check", "--config", "run")


def test_a_prepared_process_does_not_collect_until_it_runs():
    """The start makes many objects that stay."""
    code = "import gc; from proxy.process_setup import prepare; prepare(); print(gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
