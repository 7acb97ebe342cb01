"""The names of workspaces and of the keys that hold one.

All keys of a workspace share a hash tag, so a cluster keeps them on one node and a transaction may touch any of them.
Every key can be enumerated without a scan of the server: the others are fixed, buckets are numbered, and the index
keys are listed in one set.
"""

from __future__ import annotations

import re
import unicodedata
from hashlib import blake2b

import attrs

from zapomni.errors import ValidationError

REGISTRY = "zapomni:workspaces"
LONGEST_NAME = 64
LONGEST_TERM = 64  # bytes; a longer word is known by its digest
BUCKETS = 1024  # writers watch the buckets they touch: enough of them that two writers seldom meet


def workspace_name(name: str) -> str:
    """Return the one spelling of a workspace's name; raises `ValidationError`.

    Case, width, and whether words are joined by a space, an underscore or a hyphen make no difference: users who
    wrote one project's name in several ways found their memories scattered.
    """
    folded = unicodedata.normalize("NFKC", name)
    for _ in range(2):  # folding can undo the normal form, and the normal form the folding; twice settles both
        folded = unicodedata.normalize("NFKC", folded.casefold())
    folded = re.sub(r"[\s_-]+", "-", folded.strip())
    if not 1 <= len(folded) <= LONGEST_NAME:
        raise ValidationError(f"a workspace name has 1 to {LONGEST_NAME} characters")
    if not folded[0].isalnum() or not all(_may_name(character) for character in folded):
        raise ValidationError(
            "a workspace name starts with a letter or a digit and holds only letters, digits, '.', '-' and '_'"
        )
    return folded


def _may_name(character: str) -> bool:
    return character.isalnum() or character in ".-" or unicodedata.category(character).startswith("M")


def digest(*parts: str) -> str:
    """Return a short name for some strings; different strings have different names."""
    state = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")  # a question may hold what a memory may not
        state.update(len(data).to_bytes(8))
        state.update(data)
    return state.hexdigest()


@attrs.frozen
class Keys:
    """The keys of one workspace."""

    workspace: str

    def _key(self, *parts: object) -> str:
        return ":".join([f"{{zapomni:{self.workspace}}}", *map(str, parts)])

    @property
    def graph(self) -> str:
        """The truth: memories, their passages, their versions."""
        return self._key("graph")

    @property
    def about(self) -> str:
        """A hash that seldom changes: schema, embedding model. Every write watches it."""
        return self._key("about")

    @property
    def counts(self) -> str:
        """A hash that every write changes: the next chunk number, and the totals that BM25 needs."""
        return self._key("counts")

    @property
    def hidden(self) -> str:
        """A bitmap of the chunks that no search may return: unfinished, replaced or deleted."""
        return self._key("hidden")

    @property
    def index(self) -> str:
        """The set of all names of postings and facets."""
        return self._key("index")

    @property
    def tags(self) -> str:
        """A hash of how many memories have each tag."""
        return self._key("tags")

    @property
    def garbage(self) -> str:
        """The set of chunk ranges whose index entries are to be removed."""
        return self._key("garbage")

    @property
    def upkeep(self) -> str:
        """The lock for work on the whole workspace."""
        return self._key("upkeep")

    def vectors(self, generation: int) -> str:
        return self._key("vectors", generation)

    def pending(self, generation: int) -> str:
        """A sorted set of the chunks that have no vector yet."""
        return self._key("pending", generation)

    def lease(self, first: int) -> str:
        """Lives as long as somebody is writing the memory whose first chunk this is."""
        return self._key("writing", first)

    def entry(self, name: str) -> str:
        """The key of a posting list or facet named in the index."""
        return self._key(name)

    def cards(self, memory_id: str) -> str:
        return self._bucket("card", memory_id)

    def hashes(self, content_hash: str) -> str:
        return self._bucket("hash", content_hash)

    def names(self, key: str) -> str:
        return self._bucket("key", key)

    def _bucket(self, kind: str, of: str) -> str:
        return self._key(
            kind, int.from_bytes(blake2b(of.encode("utf-8", "surrogatepass"), digest_size=2).digest()) % BUCKETS
        )

    def buckets(self) -> list[str]:
        return [self._key(kind, number) for kind in ("card", "hash", "key") for number in range(BUCKETS)]


def term_name(term: str) -> str:
    """Return the name of a word's posting list."""
    return f"p:{term}" if len(term.encode("utf-8", "surrogatepass")) <= LONGEST_TERM else f"P:{digest(term)}"
