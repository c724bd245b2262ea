"""The effects of a quota in random plays, as a digest.

`python -m tests.support.quota_counts FIRST LAST` prints the build and the digest of the seeds from FIRST to just before
LAST, so that two builds can be compared to the last digit.
"""

import hashlib
import re
import sys
from random import Random

from policies.quota.policy import Quota
from proxy import builds
from tests.support.quota_plays import Play
from tests.support.quota_scripts import script

ENFORCEMENTS = ("entity", "channel")
_WHOLE = re.compile(r"(?<=\d)\.0(?!\d)")


def digest(first: int, last: int) -> str:
    """Return the digest of these seeds. A float without a fraction is the same as the integer."""
    whole = hashlib.sha256()
    for seed in range(first, last):
        for enforcement in ENFORCEMENTS:
            found = Play(script(Random(seed), enforcement), Quota).run()
            text = repr((seed, enforcement, found))
            assert " at 0x" not in text, f"seed {seed}: a report without a value of its own"
            whole.update(_WHOLE.sub("", text).encode())
    return whole.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(f"{builds.running()} {digest(int(sys.argv[1]), int(sys.argv[2]))}\n")
