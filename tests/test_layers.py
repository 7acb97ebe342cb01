"""A module imports only from the layers below its own; only the server knows the protocol."""

from __future__ import annotations

import ast
from pathlib import Path

import zapomni

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "models", "moments"}),
    frozenset({"config", "log", "team"}),
    frozenset({"chunking", "terms", "fusion", "transfer", "clients"}),
    frozenset({"embed", "store"}),
    frozenset({"engine"}),
    frozenset({"tools"}),
    frozenset({"server"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)
ROOT = Path(zapomni.__file__).parent


def layer_of(part: str) -> int:
    for number, parts in enumerate(LAYERS):
        if part in parts:
            return number
    raise AssertionError(f"zapomni.{part} belongs to no layer: add it to LAYERS")


def imports_of(path: Path) -> set[str]:
    """Return every dotted name that a file imports, lazily or not."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def test_a_module_imports_only_from_layers_below_it() -> None:
    wrong = []
    for path in modules():
        own = part_of(path)
        for name in imports_of(path):
            if not name.startswith("zapomni."):
                continue
            other = name.split(".")[1]
            if other == "__version__":
                continue
            if other != own and layer_of(other) >= layer_of(own):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_only_the_server_knows_the_protocol() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules()
        for name in imports_of(path)
        if name.split(".")[0] in {"mcp", "mcp_types"} and part_of(path) not in {"server", "cli"}
    ]
    assert wrong == []


def test_every_cypher_string_lives_in_the_store() -> None:
    wrong = [
        path.relative_to(ROOT)
        for path in modules()
        if part_of(path) != "store"
        and any(word in path.read_text(encoding="utf-8") for word in ("MATCH (", "GRAPH.QUERY", "GRAPH.RO_QUERY"))
    ]
    assert wrong == []
