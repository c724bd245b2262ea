"""The errors that a user of the pipeline can mend: the message says what was found and what is expected."""

from __future__ import annotations


class PipelineError(Exception):
    """The input or the machine does not allow the job; printed as one line, without a traceback."""

    exit_code = 2


class JobFailedError(PipelineError):
    """The job could not do its work although its input is right: a disk is full, a cluster is gone."""

    exit_code = 1
