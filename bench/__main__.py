"""``python -m bench COMMAND``: each benchmark prints one table and leaves JSON and a plot in bench/out."""

from __future__ import annotations

import importlib
import sys

COMMANDS = {
    "startup": "spawn to the first answers, against a bare SDK server",
    "calls": "what one call costs, against the SDK's own transport",
    "picture": "draw the README's picture from a real run of the demo",
}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("usage: python -m bench COMMAND [--help]\n")
        for name, meaning in COMMANDS.items():
            print(f"  {name:10} {meaning}")
        return 2
    importlib.import_module(f"bench.{sys.argv[1]}").main(sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
