"""The machine: a core that decides over bytes and integers, and a shell that moves them.

Internal: authors of policies import `sluice`.
"""
