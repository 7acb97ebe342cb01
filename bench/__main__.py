"""``python -m bench COMMAND``: each benchmark prints one table, with its alternatives in the same run.

The same figures are left in ``bench/out`` as JSON and as a plot, named by the command and by the options that are not
the default.
"""

from __future__ import annotations

import sys
from importlib import import_module

from zapomni.log import configure

COMMANDS = {
    "startup": "spawn to the first answers and the first search, against a bare SDK server",
    "calls": "what one call costs, against the SDK's own transport",
    "memory": "adding and searching through server processes, and how each grows with the size",
    "compare": "the same work for other memory servers, as far as they are installed",
    "store": "writing, searching and cold starts of the store alone",
    "indices": "FalkorDB's own vector and full-text indices, against what the store uses instead",
    "engine": "adding and searching through the engine, and what it adds to the store's own time",
    "quality": "how good the answers are, against grep, plain BM25 and vectors alone",
}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("usage: python -m bench COMMAND [--help]\n")
        for name, meaning in COMMANDS.items():
            print(f"  {name:10} {meaning}")
        return 2
    configure("warning")  # on stderr: stdout is the table's
    import_module(f"bench.{sys.argv[1]}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
