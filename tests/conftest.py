"""How hypothesis plays: the same examples each time and no deadline, so that a busy machine fails nothing.

`HYPOTHESIS_PROFILE=default` looks for new ones.
"""

import os

from hypothesis import settings

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
