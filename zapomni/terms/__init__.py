"""Texts and queries as the terms that the word index knows."""

from zapomni.terms.dates import dates_in
from zapomni.terms.indexing import IndexedTerms, document_terms, indexed_terms, query_terms
from zapomni.terms.words import words

__all__ = ["IndexedTerms", "dates_in", "document_terms", "indexed_terms", "query_terms", "words"]
