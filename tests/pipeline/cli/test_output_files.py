"""Local files that a command writes: whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from pipeline.cli.output_files import check_output, write_output
from pipeline.errors import JobFailedError, PipelineError


def test_the_check_leaves_nothing_behind(tmp_path: Path) -> None:
    """The folder is made; neither a new file nor a changed one is left."""
    old, new = tmp_path / "old", tmp_path / "folder" / "new"
    old.write_text("as it was")

    check_output(old)
    check_output(new)

    assert old.read_text() == "as it was"
    assert list(new.parent.iterdir()) == []


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """It names the file and why."""
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "page.html"

    with pytest.raises(PipelineError, match=f"^{inside} cannot be written: "):
        check_output(inside)
    with pytest.raises(PipelineError, match=f"^{tmp_path} is a folder; expected a file$"):
        check_output(tmp_path)


def test_a_text_that_cannot_be_written_whole_leaves_the_old_file(tmp_path: Path) -> None:
    """The partial file is removed as well."""
    page = tmp_path / "page.html"
    page.write_text("the old one")

    with pytest.raises(UnicodeEncodeError):
        write_output(page, "new, but for this: \ud800")

    assert page.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [page]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file that it leads to gets the text."""
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "quotas.yaml", tmp_path / "quotas.yaml"
    link.symlink_to(target)

    check_output(link)
    write_output(link, "version: 1\n")

    assert link.is_symlink()
    assert target.read_text() == "version: 1\n"


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    """The check does not open it: its reader would see an end. It stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()

    check_output(pipe)
    write_output(pipe, "text")

    reader.join(30)
    assert read == ["text"]
    assert pipe.is_fifo()


def test_a_full_disk_is_a_failed_job() -> None:
    """Exit code 1: another run may do it."""
    with pytest.raises(JobFailedError, match=r"^/dev/full cannot be written: No space left"):
        write_output(Path("/dev/full"), "text")
