"""The zip of our code that a cluster's workers import."""

import subprocess
import sys
from pathlib import Path

from pipeline.code_zip import write_code_zip


def test_a_python_with_nothing_else_of_ours_imports_the_zip(tmp_path: Path) -> None:
    """From the zip alone, a worker imports the arithmetic of the quotas and the pipeline."""
    path = tmp_path / "sluice.zip"
    write_code_zip(path)
    code = (
        f"import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
        f"sys.path.insert(0, {str(path)!r})\n"
        "import pipeline.schema, policies.quota.rate\n"
        "print(pipeline.schema.__file__, policies.quota.rate.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sluice.zip") == 2
