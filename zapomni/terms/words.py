"""A text's words, and the terms that each word is found by.

A word gives two kinds of terms. *Primary* ones carry the ranking: the stem, or the bigrams of a script that writes
no spaces. *Extra* ones keep it findable by other spellings: the exact form beside the stem, an identifier as a whole
beside its parts, a single character beside its bigrams. Everything is folded the same way on both sides, so a query
and a passage meet if they share any spelling.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from threading import local
from typing import TYPE_CHECKING

import attrs
import Stemmer

from zapomni.terms.stopwords import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TERM = 64
"""Characters of a term, at the most; a longer one is cut, in texts and queries alike."""

_DEFAULT = "english"
_FEW = 16  # words that may well come without a stop word among them
_LAST_LATIN = "\u024f"
_CACHED = 32  # characters of a token that is likely to come again; sentences without spaces are not
_VOTERS = 128  # words that decide on a language; more add nothing but time
_LONGEST_IDENTIFIER = 200  # a longer run is data rather than a name: its pieces are not worth a term each

# Letters that `\w` leaves out: vowel signs and other marks, without which Indic, Thai, Arabic or Hebrew words and
# decomposed Latin ones would fall to pieces; and the joiners inside Persian and Indic words.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3\u200c\u200d"
)
# Scripts without spaces, and Hangul, whose particles cling to the word: searched by bigrams.
_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"
)
# Emoji, currency and mathematical signs are words of one character; skin tones and variation selectors are not.
_SIGNS = (
    "\u20a0-\u20cf\u00a3\u00a5\u2190-\u22ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff"
    "\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
)
_LETTER = rf"[\w{_MARKS}]"
_TOKEN = re.compile(
    rf"\w{_LETTER}*(?:(?:[-./@\\'’&·]|(?<=\d)[,:](?=\d)){_LETTER}+)*(?:\+\+|\#)?|[\U0001f1e6-\U0001f1ff]{{2}}|[{_SIGNS}]"
)
LETTERS = re.compile(rf"(?:(?!_){_LETTER})+")
"""A run of letters, digits and their marks."""
_UNSPACED_RUN = re.compile(rf"([{_UNSPACED}]+)")
_NUMBER = re.compile(r"\d+(?:[-.,:/]\d+)*")
_NUMBER_PARTS = re.compile(r"[-.,:/]")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_SEGMENT = re.compile(r"[/@\\&:,]")
_PART = re.compile(r"[-_.'’·]")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_GLUE = str.maketrans("", "", "-_'’·")
_CONTRACTION = re.compile(r"(?<=\w)['’](?:s|t|d|m|ll|re|ve)$", re.IGNORECASE)

# Stems differ by language only in the Latin script, where the vote decides.
_SCRIPTS = (
    ("\u0400", "\u052f", "russian"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0b80", "\u0bff", "tamil"),
)
_FOLDED_BLOCKS = (("\0", "\u052f"), ("\u0590", "\u06ff"), ("\u1e00", "\u1fff"))  # where a mark is an accent
_STROKES = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ı": "i"})
_LANGUAGES: dict[str, list[str]] = {}
for _language, _common in STOP_WORDS.items():
    for _stop in _common if _language != "russian" else ():
        _LANGUAGES.setdefault(_stop, []).append(_language)


@attrs.frozen
class Word:
    """One token of a text and its terms."""

    primary: tuple[str, ...]
    extra: tuple[str, ...] = ()
    stop: bool = False
    """Too common, in the language of the text, to tell passages apart."""
    terms: tuple[str, ...] = attrs.field(init=False, repr=False)
    """Both kinds of terms."""

    @terms.default
    def _both(self) -> tuple[str, ...]:
        return self.primary + self.extra


def words(text: str) -> list[Word]:
    """Return the words of a text, in order, as they are found in its language."""
    return [word for _, word in tokens(text)]


def tokens(text: str) -> list[tuple[str, Word]]:
    """Return the words of a text beside how they are written."""
    written = _TOKEN.findall(unicodedata.normalize("NFKC", text))
    language = language_of(written) or _DEFAULT
    return [(token, (_word if len(token) <= _CACHED else _make_word)(token, language)) for token in written]


def other_stems(text: str) -> set[str]:
    """Return the stems that a text's words would have in other languages, where nothing tells its language.

    A query is often a word or two, without any of the common words that give a language away.
    """
    written = _TOKEN.findall(unicodedata.normalize("NFKC", text))
    if len(written) > _FEW or language_of(written) is not None:
        return set()
    plain = [token.casefold() for token in written if token.isalpha() and token[0] <= _LAST_LATIN]
    return {
        _fold(_stem(word, language))[:MAX_TERM]
        for word in plain
        for language in STOP_WORDS
        if language not in {_DEFAULT, "russian"}
    }


def language_of(written: Iterable[str]) -> str | None:
    """Return the Latin-script language that most of the first tokens' common words belong to."""
    votes: dict[str, int] = {}
    for _, token in zip(range(_VOTERS), written, strict=False):
        for language in _LANGUAGES.get(token.lower(), ()):
            votes[language] = votes.get(language, 0) + 1
    return max(votes, key=lambda language: (votes[language], language == _DEFAULT), default=None)


def _make_word(token: str, language: str) -> Word:
    if token.isascii() and token.isalpha() and (token.islower() or token.istitle()):  # nearly every English word
        return _plain(token.casefold(), language)
    if len(token) > _LONGEST_IDENTIFIER and not _UNSPACED_RUN.search(token):
        return Word((token[:MAX_TERM].casefold(),))
    if len(token) == 1 or (len(token) == 2 and not token[0].isalnum()):
        return _plain(token.casefold(), language)
    if _NUMBER.fullmatch(token):
        whole = token.replace(",", "") if _THOUSANDS.fullmatch(token) else token
        parts = _NUMBER_PARTS.split(whole)
        return Word((whole[:MAX_TERM],), tuple(parts) if len(parts) > 1 else ())
    return _compound(token, language)


_word = lru_cache(maxsize=1 << 16)(_make_word)


def _plain(folded: str, language: str) -> Word:
    exact = (_fold(folded) or folded)[:MAX_TERM]
    stop = folded in STOP_WORDS[language] or exact in STOP_WORDS["russian"]
    stem = _fold(_stem(folded, language))[:MAX_TERM] or exact
    return Word((stem,), (exact,) if exact != stem else (), stop)


def _compound(token: str, language: str) -> Word:
    primary: list[str] = []
    extra: list[str] = []
    body = token.rstrip("+#")
    if body != token:
        extra.append(token.casefold())
    segments = [segment for segment in _SEGMENT.split(body) if segment]
    stop = True
    for segment in segments:
        segment = _CONTRACTION.sub("", segment)
        for part in filter(None, _PART.split(segment)):
            for piece in filter(None, _UNSPACED_RUN.split(part)):
                if _UNSPACED_RUN.match(piece):
                    _add_unspaced(piece, primary, extra)
                    stop = False
                else:
                    stop &= _add_name(piece, language, primary, extra)
        if not _UNSPACED_RUN.search(segment):
            extra.append(_fold(segment.translate(_GLUE).casefold()))
    if len(segments) > 1:
        extra.append(_fold(body.translate(_GLUE).casefold()))
    known = set(primary)
    kept = dict.fromkeys(term[:MAX_TERM] for term in extra if term not in known)
    return Word(tuple(primary), tuple(kept), stop)


def _add_unspaced(run: str, primary: list[str], extra: list[str]) -> None:
    if len(run) == 1:
        primary.append(run)
        return
    primary += [first + second for first, second in pairwise(run)]
    extra += run


def _add_name(part: str, language: str, primary: list[str], extra: list[str]) -> bool:
    """Add a part of an identifier, itself perhaps in camel case; tell whether it is a stop word."""
    pieces = _CAMEL.findall(part) if part.isascii() else [part]
    if len(pieces) > 1:
        extra.append(part.casefold())
    stop = len(pieces) == 1
    for piece in pieces:
        word = _plain(piece.casefold(), language)
        primary += word.primary
        extra += word.extra
        stop &= word.stop
    return stop


def _fold(word: str) -> str:
    """Drop the accents of the scripts where they are accents, and the joiners that nobody types."""
    if word.isascii():
        return word
    word = word.translate(_STROKES).replace("\u200c", "").replace("\u200d", "").replace("й", "\ue000")
    kept = [
        character
        for character in unicodedata.normalize("NFD", word)
        if not (unicodedata.combining(character) and any(low <= character <= high for low, high in _FOLDED_BLOCKS))
    ]
    return unicodedata.normalize("NFC", "".join(kept)).replace("\ue000", "й")


class _Stemmers(local):
    """Snowball's stemmers, a set for each thread: they keep state while they work."""

    def __init__(self) -> None:
        self.by_language: dict[str, Stemmer.Stemmer] = {}

    def stem(self, word: str, language: str) -> str:
        stemmer = self.by_language.get(language)
        if stemmer is None:
            stemmer = self.by_language[language] = Stemmer.Stemmer(language, 0)  # our own cache is before it
        stem: str = stemmer.stemWord(word)
        return stem


_stemmers = _Stemmers()


def _stem(word: str, language: str) -> str:
    first = word[0]
    if not first.isalpha():
        return word
    if first > _LAST_LATIN:
        for low, high, own in _SCRIPTS:
            if low <= first <= high:
                return _stemmers.stem(word.replace("ё", "е"), own)
        return word
    return _stemmers.stem(word, language)
