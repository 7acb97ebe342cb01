"""The hard-to-kill suite: faults at random, and an independent ledger of what was acknowledged."""
