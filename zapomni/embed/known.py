"""What the well-known models want to be told: the words before a query and before a passage, and their languages.

A retrieval model is trained with its prefixes. Without them, above all the query's, it finds far less.
"""

from __future__ import annotations

import zlib

import attrs

_SEARCHING = "Represent this sentence for searching relevant passages: "
_INSTRUCTED = "Instruct: Given a question, retrieve passages that answer it\nQuery: "


@attrs.frozen
class Habits:
    """How a model is to be spoken to."""

    query_prefix: str = ""
    document_prefix: str = ""
    multilingual: bool = True


_ENGLISH = Habits(multilingual=False)

# The first line whose words are all in the model's name is taken, so the narrower stand before the wider.
_KNOWN: tuple[tuple[tuple[str, ...], Habits], ...] = (
    (("nomic", "v2"), Habits("search_query: ", "search_document: ")),
    (("nomic",), Habits("search_query: ", "search_document: ", multilingual=False)),
    (("e5", "instruct"), Habits(_INSTRUCTED)),
    (("multilingual-e5",), Habits("query: ", "passage: ")),
    (("e5-",), Habits("query: ", "passage: ", multilingual=False)),
    (("bge-m3",), Habits()),
    (("bge", "zh"), Habits("为这个句子生成表示以用于检索相关文章：")),
    (("bge",), Habits(_SEARCHING, multilingual=False)),
    (("arctic-embed", "v2"), Habits("query: ")),
    (("arctic-embed2",), Habits("query: ")),
    (("arctic",), Habits(_SEARCHING, multilingual=False)),
    (("mxbai",), Habits(_SEARCHING, multilingual=False)),
    (("embeddinggemma",), Habits("task: search result | query: ", "title: none | text: ")),
    (("qwen3-embedding",), Habits(_INSTRUCTED)),
    (("gte-qwen",), Habits(_INSTRUCTED)),
    (("gte", "multilingual"), Habits()),
    (("gte",), _ENGLISH),
    (("multilingual",), Habits()),
    (("minilm",), _ENGLISH),
    (("mpnet",), _ENGLISH),
    (("granite", "english"), _ENGLISH),
    (("granite-embedding:30m",), _ENGLISH),
)


def identity(name: str, habits: Habits, *more: object) -> str:
    """Return the name that vectors are kept under, another one for everything that makes other vectors."""
    parts = [part for part in (habits.document_prefix, *more) if part]
    return f"{name}#{zlib.crc32(repr(parts).encode()):08x}" if parts else name


def habits_of(model: str) -> Habits:
    """Return how a model wants to be spoken to, by its name; an unknown one takes texts as they are."""
    name = model.lower().replace("_", "-")
    for parts, habits in _KNOWN:
        if all(part in name for part in parts):
            return habits
    return Habits()
