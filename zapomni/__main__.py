"""``python -m zapomni`` is the `zapomni` command."""

import sys

from zapomni.cli import main

if __name__ == "__main__":
    sys.exit(main())
