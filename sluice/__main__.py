"""`python -m sluice`: the same command as `sluice`."""

from proxy.__main__ import main

if __name__ == "__main__":
    main()
