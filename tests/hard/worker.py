"""Runs a command without the right of root to open what it may not: ``python -m tests.hard.worker COMMAND...``.

A folder that is closed to its owner is open to root all the same, unless root gives this up. Whoever is not root
has nothing to give up.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24
RIGHTS = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def main() -> None:
    if sys.platform == "linux" and os.geteuid() == 0:
        library = ctypes.CDLL(None, use_errno=True)
        for right in RIGHTS:
            if library.prctl(PR_CAPBSET_DROP, right, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a right cannot be given up")
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
