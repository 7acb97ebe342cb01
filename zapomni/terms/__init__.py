"""Texts and queries as the terms that the word index knows."""

from zapomni.terms.dates import dates_in
from zapomni.terms.indexing import (
    K1,
    B,
    IndexedTerms,
    context_of,
    document_terms,
    importance,
    indexed_terms,
    query_terms,
)
from zapomni.terms.question import hints
from zapomni.terms.words import LETTERS, tokens, words

__all__ = [
    "K1",
    "LETTERS",
    "B",
    "IndexedTerms",
    "context_of",
    "dates_in",
    "document_terms",
    "hints",
    "importance",
    "indexed_terms",
    "query_terms",
    "tokens",
    "words",
]
