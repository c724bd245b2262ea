"""The effects of a quota in random plays, as a digest.

`python -m tests.support.quotas.quota_counts FIRST LAST` prints the build and the digest of the seeds from FIRST to just
before LAST, so that two builds can be compared to the last digit.
"""

import hashlib
import re
import sys
from random import Random

from policies.quota.policy import Quota
from proxy.cli import builds
from tests.support.quotas.quota_plays import Found, Play
from tests.support.quotas.quota_scripts import script, short_throttles

ENFORCEMENTS = ("entity", "channel")
_WHOLE = re.compile(r"(?<=\d)\.0(?!\d)")


def digest(first: int, last: int) -> str:
    """Return the digest of these seeds. A float without a fraction is the same as the integer."""
    whole = hashlib.sha256()
    for seed in range(first, last):
        for enforcement in ENFORCEMENTS:
            found = Play(script(Random(seed), enforcement), Quota).run()
            whole.update(_text(seed, enforcement, found))
        for looks in (True, False):
            made = short_throttles(Random(seed))
            found = Play(made, Quota, defers=True, looks=looks).run()
            whole.update(_text(seed, str(looks), found))
    return whole.hexdigest()


def _text(seed: int, how: str, found: Found) -> bytes:
    text = repr((seed, how, found))
    assert " at 0x" not in text, f"seed {seed}: a report without a value of its own"
    return _WHOLE.sub("", text).encode()


if __name__ == "__main__":
    sys.stdout.write(f"{builds.running()} {digest(int(sys.argv[1]), int(sys.argv[2]))}\n")
