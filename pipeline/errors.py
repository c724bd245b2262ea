"""The errors that a user of the pipeline can mend: the message says what was found and what is expected."""

from __future__ import annotations


class PipelineError(Exception):
    """The input or the machine does not allow the job; printed as one line, without a traceback."""
