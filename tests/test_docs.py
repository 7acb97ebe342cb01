"""What the documentation shows exists: its links, commands, flags, settings, messages and keys."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

import zapomni
from zapomni.cli import EXITS, build_parser
from zapomni.clients import CLIENTS
from zapomni.config import CONFIG_VARIABLE, ENV_PREFIX, Settings
from zapomni.store import names

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))
MADE = {DOCS / "reference" / name for name in ("commands.md", "settings.md")}  # compared with the code elsewhere

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`zapomni ([^`]+)`")
VARIABLE = re.compile(rf"\b{ENV_PREFIX}[A-Z_]+\b")
PACKAGE = Path(zapomni.__file__).parent
OUR_ERRORS = {"ConfigError", "DatabaseError", "EmbeddingError", "NotDone", "Lost", "TooLong"}
SEEN_BY_NOBODY = {"the call was cancelled"}
TOLD_BY = 24  # characters that a message is recognised by

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))


def blocks(page: Path, *languages: str) -> Iterator[str]:
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            yield body


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    for target in LINK.findall(prose(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to #{anchor}, which {target.name} does not have"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_into_the_documentation_lead_somewhere(name: str) -> None:
    for target, anchor in links(ROOT / name):
        if DOCS in target.parents:
            assert target.exists(), f"{name} links to {target}, which is not there"
            assert not anchor or anchor in anchors(target), f"{name} links to #{anchor}"


def test_the_index_names_every_page() -> None:
    assert {target for target, _ in links(INDEX)} == {page for page in PAGES if page != INDEX}


def shown_commands(page: Path) -> Iterator[list[str]]:
    """Return the arguments of every `zapomni` that a page runs, in a terminal or from a client's settings."""
    for body in blocks(page, "console"):
        for line in body.splitlines():
            if line.startswith("$ "):
                for part in re.split(r" \| ", line.removeprefix("$ ")):
                    words = shlex.split(part, comments=True)
                    if "zapomni" in words:
                        yield words[words.index("zapomni") + 1 :]
    for body in blocks(page, "json"):
        for servers in json.loads(body).values() if body.lstrip().startswith("{") and "args" in body else ():
            yield servers["zapomni"]["args"]


def parser_of(words: list[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that some words begin with."""
    parser = build_parser()
    for word in words:
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not inner:
            break
        assert word in inner[0].choices, f"there is no command zapomni {' '.join(words)}"
        parser = inner[0].choices[word]
    return parser


def is_taken(words: list[str]) -> bool:
    try:
        build_parser().parse_args(words)
    except SystemExit as end:  # also when all is well and only the version was asked for
        return not end.code
    return True


@each_page
def test_commands_that_are_shown_can_be_given(page: Path) -> None:
    for words in shown_commands(page):
        assert is_taken(words), f"{page.name}: zapomni {shlex.join(words)} is refused"


@each_page
def test_commands_that_are_mentioned_exist_with_their_flags(page: Path) -> None:
    for mention in SPAN.findall(prose(page)) if page not in MADE else ():
        words = mention.split()
        if not words[0].startswith("-"):
            known = {flag for action in parser_of(words)._actions for flag in action.option_strings}
            flags = {word for word in words if word.startswith("--")}
            assert flags <= known, f"{page.name}: zapomni {mention}"


@each_page
def test_settings_that_are_shown_exist(page: Path) -> None:
    settings = {field.name for field in attrs.fields(Settings)}
    for body in blocks(page, "toml"):
        shown = tomllib.loads(body).keys() - {client.table for client in CLIENTS.values()}
        assert shown <= settings, f"{page.name} sets {shown - settings}"
    variables = set(VARIABLE.findall(page.read_text(encoding="utf-8"))) - {CONFIG_VARIABLE}
    named = {name.removeprefix(ENV_PREFIX).lower() for name in variables} - {"name"}
    assert named <= settings, f"{page.name} names {named - settings}"


def messages() -> Iterator[tuple[str, str]]:
    """Return the longest fixed part of every message that the store and the embedders raise, and its module."""
    for module in sorted([*PACKAGE.glob("store/*.py"), *PACKAGE.glob("embed/*.py")]):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OUR_ERRORS:
                parts = [
                    part.value for given in node.args for part in ast.walk(given) if isinstance(part, ast.Constant)
                ]
                texts = [part.strip(" :;,.") for part in parts if isinstance(part, str)]
                if texts and (longest := max(texts, key=len)) not in SEEN_BY_NOBODY:
                    yield longest, f"{module.parent.name}/{module.name}"


def test_troubleshooting_knows_every_message_of_the_store_and_the_embedders() -> None:
    page = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8").replace("`", "")
    unknown = [f"{where}: {message}" for message, where in messages() if message.replace("`", "")[:TOLD_BY] not in page]
    assert not unknown, "\n".join(unknown)


def test_the_page_of_exit_codes_has_all() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == set(EXITS)


def test_the_data_layout_names_every_key() -> None:
    page = (DOCS / "reference" / "data-layout.md").read_text(encoding="utf-8")
    kinds = re.findall(r"_(?:key|bucket)\(\"(\w+)\"", inspect.getsource(names.Keys))
    assert len(kinds) > 10
    assert [kind for kind in kinds if not re.search(rf"`{kind}[:`]", page)] == []
    assert names.REGISTRY in page


def test_the_page_of_clients_has_all() -> None:
    page = (DOCS / "how-to" / "clients.md").read_text(encoding="utf-8")
    assert [name for name, client in CLIENTS.items() if f"| {client.title} | `{name}` |" not in page] == []
