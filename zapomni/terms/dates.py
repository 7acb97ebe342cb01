"""Dates: the ones that a text names, and the terms that a moment is found by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from datetime import datetime

_NAMES = """
january jan januar janvier enero gennaio janeiro январь января январе
february feb februar février febrero febbraio fevereiro февраль февраля феврале
march märz mars marzo março март марта марте
april apr avril abril aprile апрель апреля апреле
may mai mayo maggio maio май мая мае
june jun juni juin junio giugno junho июнь июня июне
july jul juli juillet julio luglio julho июль июля июле
august aug août agosto август августа августе
september sep sept septembre septiembre settembre setembro сентябрь сентября сентябре
october oct oktober octobre octubre ottobre outubro октябрь октября октябре
november nov novembre noviembre novembro ноябрь ноября ноябре
december dec dezember décembre diciembre dicembre dezembro декабрь декабря декабре
"""
_MONTHS = {name: number for number, names in enumerate(_NAMES.strip().splitlines(), start=1) for name in names.split()}
# These are also other words: they are months only beside a number or after a word that times have before them.
_AMBIGUOUS = frozenset({"may", "march", "mars", "mai", "sep", "jun"})
_BEFORE = r"(?:in|on|of|since|during|by|until|till|before|after|early|mid|late|last|this|next|im|en|de)"
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|\.)?"
# Spaces are taken whole, so that a long run of them is not tried in every division between two parts.
_MENTION = re.compile(
    rf"(?P<iso_year>{_YEAR})-(?P<iso_month>0[1-9]|1[0-2])(?:-(?P<iso_day>0[1-9]|[12]\d|3[01]))?(?!\d)"
    rf"|(?:(?P<cjk_year>{_YEAR})年)?(?P<cjk_month>1[0-2]|0?[1-9])月(?:(?P<cjk_day>3[01]|[12]\d|0?[1-9])[日号])?"
    rf"|(?:\b(?P<lead>{_BEFORE})\s++)?(?:\b(?P<day_first>{_DAY})\s++(?:of\s++|de\s++)?)?\b(?P<month>{_MONTH})\b\.?"
    rf"(?:\s++(?P<day>{_DAY})(?![\d\w]))?(?:\s*+(?:,\s*+)?(?:de\s++)?(?P<year>{_YEAR})\b)?"
    rf"|(?<![\d.])(?P<bare>{_YEAR})(?![\d.]\d|\d)"
)


@attrs.frozen
class Mention:
    """A date as far as a text names it."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def covers(self, moment: datetime) -> bool:
        """Tell whether a moment lies in the year or month named; the day is left to `terms`.

        What happened on a day is often told on another.
        """
        return (self.year is None or self.year == moment.year) and (self.month is None or self.month == moment.month)

    @property
    def terms(self) -> tuple[str, ...]:
        """What a moment on this date is found by, the widest first."""
        terms = []
        if self.year is not None:
            terms.append(f"@{self.year}")
        if self.month is not None:
            terms.append(f"@{self.month:02}")
            if self.year is not None:
                terms.append(f"@{self.year}-{self.month:02}")
            if self.day is not None:
                terms.append(f"@{self.month:02}-{self.day:02}")
        return tuple(terms)


def terms_of(moment: datetime) -> tuple[str, ...]:
    """Return the terms of a moment; no word of a text is written like them."""
    return Mention(moment.year, moment.month, moment.day).terms


def dates_in(text: str) -> tuple[Mention, ...]:
    """Return the dates that a text names, in order."""
    found = []
    for match in _MENTION.finditer(text.casefold()):
        part = match.groupdict()
        name = part["month"]
        beside = part["lead"] or part["day_first"] or part["day"] or part["year"]
        if name in _AMBIGUOUS and not beside:
            continue
        day = part["day_first"] or part["day"] or part["iso_day"] or part["cjk_day"]
        found.append(
            Mention(
                _number(part["year"] or part["iso_year"] or part["cjk_year"] or part["bare"]),
                _MONTHS[name] if name else _number(part["iso_month"] or part["cjk_month"]),
                _number(day),
            )
        )
    return tuple(found)


def _number(digits: str | None) -> int | None:
    return int(re.sub(r"\D", "", digits)) if digits else None
