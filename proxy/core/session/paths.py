"""The paths that the requests of a plan take, and their replies. In the compiled build these are C constants."""

from __future__ import annotations

from typing import Final

PASSES: Final = 0
"""Requests or replies that no policy is asked about, and that pass as they are; such requests get replies."""

GATED: Final = 1
"""Requests whose gate is asked first: what it passes is handled as under PASSES, any other as under ASKED."""
ASKED: Final = 2
"""Requests that the policies judge by their header."""
SHOWN: Final = 3
"""Requests that are read where they lie, because the policies need more than the header (`read_in_place`)."""
GENERAL: Final = 4
"""Requests that the fast path leaves to `request_stream`."""

IF_UNTAGGED: Final = 1
"""Replies that pass as they are if they are about one partition, and so name no broker."""
HEARD: Final = 2
"""Replies that a policy hears of, or that may be rewritten."""
