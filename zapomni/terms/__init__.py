"""Texts and queries as the terms that the word index knows."""

from zapomni.terms.dates import dates_in
from zapomni.terms.indexing import (
    K1,
    B,
    IndexedTerms,
    document_terms,
    importance,
    indexed_terms,
    query_terms,
    title_of,
)
from zapomni.terms.question import hints
from zapomni.terms.words import LETTERS, tokens, words

__all__ = [
    "K1",
    "LETTERS",
    "B",
    "IndexedTerms",
    "dates_in",
    "document_terms",
    "hints",
    "importance",
    "indexed_terms",
    "query_terms",
    "title_of",
    "tokens",
    "words",
]
