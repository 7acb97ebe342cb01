from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from time import thread_time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni.models import Passage
from zapomni.terms import dates_in, document_terms, hints, importance, indexed_terms, query_terms, title_of, words
from zapomni.terms.dates import Mention
from zapomni.terms.indexing import MAX_QUERY_TERMS, UNIT
from zapomni.terms.stopwords import STOP_WORDS
from zapomni.terms.words import MAX_TERM

if TYPE_CHECKING:
    from collections.abc import Iterator

MAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def meets(query: str, text: str) -> bool:
    """Tell whether a query finds a text at all."""
    return not query_terms(query).keys().isdisjoint(document_terms(text))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("running", "She runs every day"),
        ("Straße", "in der STRASSE"),
        ("cafe", "the Café"),
        ("café", "the cafe\u0301s"),
        ("ﬁle", "a file"),
        ("собака", "много собак"),
        ("еж", "ёж"),
        ("Ёжик", "ежик"),
        ("Kinder", "Das Kind war mit den anderen Kindern da"),
        ("läuft", "Er läuft nach Hause und ist da"),
        ("école", "Les enfants de l'école sont là"),
        ("黑豹", "黑豹队的防守"),
        ("豹", "黑豹队的防守"),
        ("ラーメン", "昨日ラーメンを食べた"),
        ("학교", "학교에서 공부했다"),
        ("ภาษา", "ภาษาไทย"),
        ("हिन्दी", "वह हिन्दी बोलता है"),
        ("کتاب‌ها", "کتابها"),
        ("🎉", "We did it 🎉🎉"),
        ("👍", "great 👍🏽"),
        ("🇩🇪", "trip to 🇩🇪"),
        ("❤", "love ❤️"),
        ("€", "it costs 5 €"),
        ("x", "solve for x"),
    ],
)
def test_a_word_is_found_however_it_is_written(query: str, text: str) -> None:
    assert meets(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("parseHTTPResponse", "call parse_http_response() here"),
        ("http response", "call parseHTTPResponse here"),
        ("parse-http-response", "parseHTTPResponse"),
        ("main.py", "see src/zapomni/main.py"),
        ("src/zapomni/main.py", "see src/zapomni/main.py:12"),
        ("john.doe@example.com", "write to John.Doe@Example.com."),
        ("example.com", "write to john.doe@example.com"),
        ("3.14", "Python 3.14 is out"),
        ("v3.14.1", "released v3.14.1 today"),
        ("e-mail", "an email came"),
        ("wifi", "the Wi-Fi is down"),
        ("C++", "written in C++, mostly"),
        ("GPT-4", "asked gpt4"),
        ("1000", "about 1,000 people"),
        ("O'Brien", "Mr. O’Brien came"),
        ("AT&T", "a contract with AT&T"),
    ],
)
def test_an_identifier_is_found_whole_and_by_its_parts(query: str, text: str) -> None:
    assert meets(query, text)


def test_the_whole_identifier_is_a_term_of_its_own() -> None:
    assert "3.14" in document_terms("Python 3.14")
    assert "john.doe@example.com" in document_terms("mail john.doe@example.com")
    assert "c++" in document_terms("C++")
    assert "c#" in document_terms("C#")
    assert "3.14" not in document_terms("3 and 14")


def test_the_exact_form_stands_beside_the_stem_and_weighs_less() -> None:
    weights = query_terms("dancing")
    assert weights["danc"] == 1.0
    assert 0 < weights["dancing"] < 1.0
    assert document_terms("dancing") == {"danc": 1, "dancing": 1}


def test_another_inflection_has_the_stem_in_common_but_not_the_form() -> None:
    assert "danc" in document_terms("danced")
    assert "dancing" not in document_terms("danced")


def test_stop_words_are_indexed_but_not_asked_for() -> None:
    assert "the" in document_terms("the group")
    assert set(query_terms("When did she go to the group?")) == {"go", "group"}
    assert set(query_terms("Когда она пошла в группу?")) == {"пошл", "пошла", "групп", "группу"}


def test_a_query_of_stop_words_alone_asks_for_them() -> None:
    assert set(query_terms("to be or not to be")) == {"to", "be", "or", "not"}


def test_a_thousand_stop_words_are_a_small_query() -> None:
    query = " ".join(sorted(STOP_WORDS["english"]) * 8)[:8000]
    assert 0 < len(query_terms(query)) <= MAX_QUERY_TERMS


def test_a_huge_query_asks_for_a_bounded_number_of_terms() -> None:
    assert len(query_terms(" ".join(f"word{number}" for number in range(100_000)))) <= MAX_QUERY_TERMS


def test_a_query_of_nothing_asks_for_nothing() -> None:
    assert query_terms(" ?! … ") == {}


@given(st.text(max_size=300))
def test_terms_are_bounded_and_not_empty(text: str) -> None:
    for term in document_terms(text):
        assert 0 < len(term) <= MAX_TERM
        assert not term.startswith("@")


@given(st.text(max_size=120))
def test_a_text_is_found_by_itself(text: str) -> None:
    asked = {term for term, weight in query_terms(text).items() if weight >= 1 and not term.startswith("@")}
    assert asked <= document_terms(text).keys()


@given(st.text(max_size=60), st.text(max_size=60))
def test_case_does_not_matter(first: str, second: str) -> None:
    text = f"{first} plain words {second}"
    assert document_terms(text.lower()).keys() & document_terms("PLAIN WORDS").keys()


def test_a_word_of_a_megabyte_is_one_short_term() -> None:
    assert [len(term) for term in document_terms("a" * 1_000_000)] == [MAX_TERM]


def test_threads_stem_alike() -> None:
    text = " ".join(f"running{letter} dogs universities Сколько уступила" for letter in "abcdefghij")
    alone = document_terms(text)
    with ThreadPoolExecutor(4) as pool:
        assert all(counts == alone for counts in pool.map(document_terms, [text] * 200))


def test_a_language_is_told_by_its_common_words() -> None:
    german, english = "die Kinder sind in der Schule", "the Kinder are in the Schule"
    assert "kind" in document_terms(german)
    assert "kind" not in document_terms(english)


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("What did she do on May 8, 2023?", Mention(2023, 5, 8)),
        ("on the 8th of May 2023", Mention(2023, 5, 8)),
        ("in May", Mention(None, 5)),
        ("during July 2022", Mention(2022, 7)),
        ("Sept. 12th", Mention(None, 9, 12)),
        ("back in 2019", Mention(2019)),
        ("on 2023-05-08", Mention(2023, 5, 8)),
        ("8 мая 2023 года", Mention(2023, 5, 8)),
        ("am 3. Oktober", Mention(None, 10, 3)),
        ("le 14 juillet", Mention(None, 7, 14)),
        ("2023年5月8日", Mention(2023, 5, 8)),
    ],
)
def test_a_date_is_recognised(text: str, mention: Mention) -> None:
    assert dates_in(text) == (mention,)


@pytest.mark.parametrize("text", ["May I march on?", "room 20225", "version 2000.5", "she may go", "12 apples", ""])
def test_what_is_no_date_is_not_taken_for_one(text: str) -> None:
    assert dates_in(text) == ()


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_date_in_words_finds_the_moment(moment: datetime) -> None:
    indexed = indexed_terms("It happened.", timestamp=moment)
    assert f"@{moment.month:02}" in indexed.counts
    if 1900 <= moment.year <= 2099:
        asked = query_terms(f"what happened in {moment:%B %Y}?")
        assert f"@{moment.year}-{moment.month:02}" in asked.keys() & indexed.counts.keys()


def test_the_context_counts_less_than_the_passage() -> None:
    indexed = indexed_terms("a dog", context="a cat sat", timestamp=MAY, metadata={"source": "diary"})
    assert indexed.counts["dog"] == UNIT
    assert 0 < indexed.counts["cat"] < UNIT
    assert 0 < indexed.counts["diari"] < UNIT
    assert indexed.length == 2 * UNIT + (3 + 1) * indexed.counts["cat"]


def test_metadata_is_indexed_as_words_whatever_its_shape() -> None:
    counts = indexed_terms("text", metadata={"tags": ["Garden", "Kitchen"], "count": 3, "nested": {"place": "Oslo"}})
    assert {"garden", "kitchen", "oslo"} <= counts.counts.keys()


def test_a_timestamp_in_the_metadata_is_no_word() -> None:
    assert "13" not in indexed_terms("text", metadata={"timestamp": "2023-05-08T13:56:00"}).counts


def test_a_title_is_a_first_line_of_moderate_length() -> None:
    assert title_of("The Title\n\nA text.") == "The Title"
    assert title_of("one line") == "one line"
    assert len(title_of("word " * 1000)) <= 200


def test_only_the_end_of_a_long_context_counts() -> None:
    indexed = indexed_terms("a dog", context="first " + "word " * 100_000 + "last")
    assert "last" in indexed.counts
    assert "first" not in indexed.counts


def test_a_title_counts_like_the_context() -> None:
    counts = indexed_terms("a dog", context="a cat", title="Pets").counts
    assert counts["pet"] == counts["cat"] < counts["dog"]


def test_the_rarest_term_is_the_most_important() -> None:
    weights = importance({"everywhere": 1000, "often": 300, "once": 1, "nowhere": 0}, 1000)
    assert 0 < weights["everywhere"] < weights["often"] < weights["once"] < weights["nowhere"] <= 1.0


def test_importance_of_an_empty_store_is_defined() -> None:
    assert importance({"word": 0}, 0)["word"] > 0


def passage(text: str, *, timestamp: datetime | None = None, **metadata: str) -> Passage:
    return Passage(
        number=1,
        memory_id="",
        index=0,
        start=0,
        end=len(text),
        text=text,
        metadata=metadata,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        timestamp=timestamp,
    )


def test_the_speaker_that_a_question_names_is_preferred() -> None:
    ann, bob = passage("Ann: I like tea"), passage("Bob: Ann likes tea")
    first, second = hints("What does Ann like?", [ann, bob])
    assert first > second == 0


def test_naming_two_speakers_prefers_neither() -> None:
    assert hints("Do Ann and Bob like tea?", [passage("Ann: yes"), passage("Bob: no")]) == [0, 0]


def test_the_speaker_may_stand_in_the_metadata() -> None:
    first, second = hints("What does Ann like?", [passage("tea", speaker="Ann"), passage("coffee", speaker="Bob")])
    assert first > second == 0


def test_the_month_that_a_question_names_is_preferred() -> None:
    inside, outside = passage("tea", timestamp=MAY), passage("tea", timestamp=MAY.replace(month=6))
    first, second = hints("What happened in May 2023?", [inside, outside])
    assert first > second == 0


def test_a_query_that_names_nobody_gives_no_hints() -> None:
    assert hints("green tea", [passage("Ann: tea", timestamp=MAY), passage("Bob: coffee")]) == [0, 0]


def test_words_keep_their_order() -> None:
    assert [word.primary for word in words("one two")] == [("one",), ("two",)]


RUNS = [
    *(
        "a",
        "A",
        "1",
        "_",
        "я",
        "黑",
        "각",
        "ไ",
        "é",
        "\u0301",
        "\u200d",
        "'",
        "-",
        ".",
        "/",
        "@",
        ",",
        ":",
        "+",
        "#",
        "☃",
    ),
    *("a-", "a.", "a'", "a_", "a/", "aA", "A1", "1.", "1,", "1:", "1-", "1,000", "🇩🇪", "'s", "ab ", "1 ", "3rd "),
    *("2024", "2024-", "2024-01-", "1月", "2024年", "may", "may ", "may, ", "in ", "of ", "de ", "3 of ", "in may "),
]


@pytest.mark.parametrize(
    ("before", "unit"),
    [
        *(("", unit) for unit in RUNS),
        *((before, space) for before in ("", "may", "3 may", "may 3", "may,", "in", "3 of", "Ann") for space in " \n"),
    ],
)
def test_a_run_of_anything_takes_no_longer_than_its_length_is_worth(before: str, unit: str) -> None:
    """Prose of the same length is the measure; with every part of a run tried, it is thousands of times that."""
    size = 100_000
    took = []
    for text in (("The cat sat on the mat in May. " * size)[:size], before + (unit * size)[:size] + "x"):
        began = thread_time()
        words(text)
        hints(text, [passage(text)])
        took.append(thread_time() - began)
    assert took[1] < 100 * max(took[0], 0.01)


def test_metadata_is_read_only_as_far_as_it_is_indexed() -> None:
    class Endless(list[str]):
        def __iter__(self) -> Iterator[str]:
            for number in range(1000):
                yield f"word{number}"
            pytest.fail("it was read to its end")

    nested = {"a": ["one", {"b": None, "c": []}, [True, 2]], "timestamp": "three", "d": Endless(["word"])}
    flat = "\n".join(["one", "", "", "", "2", *(f"word{number}" for number in range(1000))])[:1000]
    assert indexed_terms("text", metadata=nested) == indexed_terms("text", metadata={"a": flat})
