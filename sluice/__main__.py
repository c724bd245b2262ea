"""`python -m sluice`: the same command as `sluice`.

Python imports the door first, so `sluice` notes a SIGHUP at its start some time earlier.
"""

from proxy.__main__ import main

if __name__ == "__main__":
    main()
