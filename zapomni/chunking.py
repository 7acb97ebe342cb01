"""Text into passages with exact offsets, by structure first.

Every place where a text may be cut has a strength: a heading, a paragraph, a list item, a sentence, a wrapped line.
A passage is filled up to its size and then cut at the strongest place in its fuller half, the last one of that
strength. Where nothing breaks a text at all, it is cut at a space or, as the last resort, between two characters as
a reader sees them.

Sizes are in tokens, and a token is taken to be four bytes of UTF-8, which is about what tokenizers come to: a letter
of English is one byte, of Russian two, a Chinese character three. Against the vocabulary of a multilingual model that
is 1.0 times the true count for English prose, 0.9 for Chinese and 1.6 for Russian; against an older English one 1.0,
0.5 and 1.3. So a passage may be shorter than asked for, but rarely longer than a reader's budget.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right

from zapomni.models import Chunk

BYTES_PER_TOKEN = 4

_WRAP, _SENTENCE, _ITEM, _PARAGRAPH, _HEADING = range(5)
_VIRAMAS = frozenset("\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d")
_LONGEST_CLUSTER = 64  # code points of one visible character; what is longer is no text

# A run is taken whole or not at all, and from its first character only: a table of contents has dots by the thousand
# with no space after them, and to try every part of such a run takes the square of its length.
_BREAK = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+\s++(?![a-zа-я])"
    r"|[。！？；｡]++[」』”’）]*+\s*+"
    r"|[؟۔।॥։።။៕]++\s*+"
    r"|\n\s*+"
)
_FENCE = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_HEADING_LINE = re.compile(r"#{1,6}[ \t]")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text is for a language model."""
    return -(-_size(text) // BYTES_PER_TOKEN)


def chunk(text: str, *, tokens: int = 192, overlap: int = 24) -> list[Chunk]:
    """Cut a text into passages of about `tokens`, at most a quarter more.

    The passages cover the text in order. Each starts where the one before ends or, where that end is inside a
    paragraph, up to `overlap` tokens earlier.
    """
    size = tokens * BYTES_PER_TOKEN
    most = size + size // 4
    total = _size(text)
    if total <= most:
        return [Chunk(0, 0, len(text), text)]
    shared = min(overlap, tokens // 2) * BYTES_PER_TOKEN
    places, strengths, sizes = _breaks(text)
    chunks: list[Chunk] = []
    start = done = 0  # where the passage starts, and where the one before ended
    base = 0  # the bytes before `start`
    while total - base > most:
        first = bisect_right(places, done)
        half = bisect_left(sizes, base + size // 2, first)
        last = bisect_right(sizes, base + size, first)
        if first < last:
            best = _strongest(strengths, half, last) if half < last else last - 1
            done, end, inside = places[best], sizes[best], strengths[best] < _PARAGRAPH
        else:
            done = _last_resort(text, start, done, size)
            end, inside = base + _size(text[start:done]), True
        chunks.append(Chunk(len(chunks), start, done, text[start:done]))
        again = bisect_left(sizes, end - shared, first) if inside else last
        if again < len(places) and start < places[again] < done:
            start, base = places[again], sizes[again]
        elif inside and first == last:
            start = _word_before(text, start, done, shared)
            base = end - _size(text[start:done])
        else:
            start, base = done, end
    chunks.append(Chunk(len(chunks), start, len(text), text[start:]))
    return chunks


def _strongest(strengths: list[int], first: int, last: int) -> int:
    window = strengths[first:last]
    window.reverse()
    return last - 1 - window.index(max(window))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _breaks(text: str) -> tuple[list[int], list[int], list[int]]:
    """Return the places where a text may be cut, how strong each is, and how many bytes stand before each."""
    places: list[int] = []
    strengths: list[int] = []
    fenced = bool(_FENCE.match(text))
    for match in _BREAK.finditer(text):
        place = match.end()
        if place == len(text):
            break
        found = match[0]
        lines = found.count("\n")
        if lines:
            # The indentation of a line belongs to it.
            place -= len(found) - found.rindex("\n") - 1
            strength, fenced = _line_strength(text, place, found, lines, fenced)
        elif fenced:
            continue
        else:
            strength = _SENTENCE
        if text[place] <= "\u02ff" or not _joined(text, place):
            places.append(place)
            strengths.append(strength)
    if text.isascii():
        return places, strengths, places
    sizes: list[int] = []
    before = size = 0
    for place in places:
        size += _size(text[before:place])
        sizes.append(size)
        before = place
    return places, strengths, sizes


def _line_strength(text: str, place: int, found: str, lines: int, fenced: bool) -> tuple[int, bool]:
    """Return how strong the break before a line is, and whether code goes on after it."""
    if text[place] in "`~ \t" and _FENCE.match(text, place):
        return _WRAP if fenced else _PARAGRAPH, not fenced
    if fenced:
        return _SENTENCE if lines > 1 else _WRAP, True
    if text[place] == "#" and _HEADING_LINE.match(text, place):
        return _HEADING, False
    if lines > 1:
        return _PARAGRAPH, False
    if found[0] != "\n" or _LIST_ITEM.match(text, place):
        return _ITEM, False
    return _WRAP, False


def _last_resort(text: str, start: int, done: int, size: int) -> int:
    """Return where to cut a text that has no break for `size` bytes: after a space, or between characters."""
    end = start + _fitting(text[start : start + size], size)
    middle = max(done, (start + end) // 2)
    for place in range(end, middle, -1):
        if text[place - 1].isspace() and not _joined(text, place):
            return place
    for place in range(end, max(done, end - _LONGEST_CLUSTER), -1):
        if not _joined(text, place):
            return place
    return end


def _fitting(text: str, size: int) -> int:
    """Return how many characters of a text fit into so many bytes."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= size:
        return len(text)
    while data[size] & 0xC0 == 0x80:  # the middle of a character
        size -= 1
    return len(data[:size].decode("utf-8", "surrogatepass"))


def _word_before(text: str, start: int, done: int, shared: int) -> int:
    """Return where the words begin that fit into `shared` bytes before a cut inside a sentence."""
    fitting = _fitting(text[max(start + 1, done - shared) : done][::-1], shared)
    for place in range(done - fitting, done):
        if text[place - 1].isspace() and not _joined(text, place):
            return place
    return done


def _joined(text: str, place: int) -> bool:
    """Tell whether the characters on both sides of a place are one to the reader."""
    before, after = text[place - 1], text[place]
    if after in "\u200d\ufe0e\ufe0f" or before == "\u200d" or (before == "\r" and after == "\n"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":  # skin tones, tags of flags
        return True
    if _is_regional(after) and _is_regional(before):
        run = place
        while run > 0 and place - run < _LONGEST_CLUSTER and _is_regional(text[run - 1]):
            run -= 1
        return (place - run) % 2 == 1
    if before in _VIRAMAS and after.isalpha():  # Indic consonants written as one
        return True
    if "\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\ud7a3":  # Hangul in letters
        return True
    return unicodedata.category(after)[0] == "M"


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
