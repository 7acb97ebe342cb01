"""The memory servers that ``bench/compare.py`` knows, and what each is given to remember."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs

from bench.texts import WORDS, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


@attrs.frozen
class Note:
    """Something to remember, and how to know it again."""

    title: str
    question: str
    answer: str
    text: str

    @classmethod
    def make(cls, number: int) -> Note:
        question = " ".join(WORDS[number * step % len(WORDS)] for step in (7, 11, 13))
        answer = f"{WORDS[number % len(WORDS)]}{number}"
        return cls(f"note-{answer}", question, answer, f"{question} {answer}. {text_of(900)}")


@attrs.frozen
class Adapter:
    """How a memory server is started, and what its two tools are called.

    Names and arguments change between versions, so a tool has all the names it ever had, and of its arguments those are
    sent that its schema knows.
    """

    name: str
    command: Sequence[str]
    """The first is looked up in the path."""
    add: Sequence[str]
    search: Sequence[str]
    to_add: Callable[[Note], Mapping[str, Any]]
    to_search: Callable[[str], Mapping[str, Any]]
    environment: Callable[[Path], Mapping[str, str]]
    remark: str = ""
    """What has to be known to read its figures."""


BASIC_MEMORY = Adapter(
    name="basic-memory",
    command=("basic-memory", "mcp"),
    add=("write_note",),
    search=("search_notes",),
    to_add=lambda note: {
        "title": note.title,
        "content": note.text,
        "folder": "notes",
        "directory": "notes",
        "project": "main",
    },
    to_search=lambda question: {"query": question, "page_size": 5, "project": "main"},
    environment=lambda folder: {
        "HOME": str(folder),
        "BASIC_MEMORY_HOME": str(folder / "notes"),
        "BASIC_MEMORY_CONFIG_DIR": str(folder / "config"),
    },
)
ADAPTERS = (
    Adapter(
        name="zapomni",
        command=(sys.executable, "-m", "zapomni", "serve"),
        add=("add_memory",),
        search=("search_memory",),
        to_add=lambda note: {"text": note.text},
        to_search=lambda question: {"query": question, "limit": 5},
        environment=lambda folder: {"ZAPOMNI_DATA_DIR": str(folder), "ZAPOMNI_STORE_LINGER": "0"},
    ),
    Adapter(
        name="server-memory",  # npm install --global @modelcontextprotocol/server-memory
        command=("mcp-server-memory",),
        add=("create_entities",),
        search=("search_nodes",),
        to_add=lambda note: {"entities": [{"name": note.title, "entityType": "note", "observations": [note.text]}]},
        to_search=lambda question: {"query": question},
        environment=lambda folder: {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
    ),
    Adapter(
        name="mcp-memory-service",
        command=("memory", "server"),
        add=("memory_store", "store_memory"),
        search=("memory_search", "retrieve_memory"),
        to_add=lambda note: {"content": note.text},
        to_search=lambda question: {"query": question, "limit": 5, "n_results": 5},
        environment=lambda folder: {
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            "MCP_MEMORY_BASE_DIR": str(folder),
            "MCP_MEMORY_SQLITE_PATH": str(folder / "memories.db"),
            "MCP_MEMORY_BACKUPS_PATH": str(folder / "backups"),
        },
        remark="hashes for vectors, unless a model is installed",
    ),
    BASIC_MEMORY,
    attrs.evolve(
        BASIC_MEMORY,
        name="basic-memory-words",
        environment=lambda folder: {
            **BASIC_MEMORY.environment(folder),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
        },
        remark="words alone, which is not its default",
    ),
    Adapter(
        name="mcp-memory-libsql",  # of npm
        command=("mcp-memory-libsql",),
        add=("create_entities",),
        search=("search_nodes",),
        to_add=lambda note: {"entities": [{"name": note.title, "entityType": "note", "observations": [note.text]}]},
        to_search=lambda question: {"query": question, "limit": 5},
        environment=lambda folder: {"LIBSQL_URL": f"file:{folder / 'memory.db'}"},
    ),
    Adapter(
        name="mcp-memory-keeper",  # of npm
        command=("mcp-memory-keeper",),
        add=("context_save",),
        search=("context_search_all",),
        to_add=lambda note: {"key": note.title, "value": note.text},
        to_search=lambda question: {"query": question, "limit": 5},
        environment=lambda folder: {"DATA_DIR": str(folder), "MEMORY_KEEPER_EXPORT_DIR": str(folder)},
    ),
    Adapter(
        name="memorygraph",  # pip install memorygraphMCP
        command=("memorygraph",),
        add=("store_memory",),
        search=("recall_memories",),
        to_add=lambda note: {"type": "general", "title": note.title, "content": note.text},
        to_search=lambda question: {"query": question, "limit": 5},
        environment=lambda folder: {"HOME": str(folder)},
    ),
    Adapter(
        name="memento-mcp",  # of PyPI
        command=("memento-mcp",),
        add=("memento_remember",),
        search=("memento_search",),
        to_add=lambda note: {"action": "add", "text": note.text},
        to_search=lambda question: {"query": question, "limit": 5},
        environment=lambda folder: {"HOME": str(folder), "MEMENTO_DIR": str(folder)},
        remark="words alone, unless a model or a key is there",
    ),
)
