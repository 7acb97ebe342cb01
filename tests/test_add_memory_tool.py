"""Adding a memory: what goes in, what comes back, and what stays in the log."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import attrs
import jsonschema
import pytest
import structlog
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED, NOON, FakeEngine, captured_log, server_with
from zapomni.errors import (
    ConfigError,
    DatabaseError,
    EmbeddingError,
    NotFoundError,
    ProcessingError,
    ValidationError,
)
from zapomni.models import MAX_TEXT_LENGTH, Memory, MemoryResult
from zapomni.tools import AddMemoryTool
from zapomni.tools.call import Call, answering

UNAVAILABLE = "Error: Database temporarily unavailable. Please retry in a few seconds."
INTERNAL = "Error: An internal error occurred while processing your memory."
ANSWER_SCHEMA = {
    "type": "object",
    "required": ["content", "isError"],
    "additionalProperties": False,
    "properties": {
        "content": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "text"],
                "additionalProperties": False,
                "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
            },
        },
        "structuredContent": {"type": "object"},
        "isError": {"type": "boolean"},
    },
}


def adding(engine: Any = None) -> AddMemoryTool:
    core: Any = engine or FakeEngine()
    return AddMemoryTool(core)


async def refusal_of(arguments: Any, engine: Any = None) -> str:
    """Return the words of an error answer."""
    answer = await adding(engine).execute(arguments)
    assert answer["isError"] is True
    assert "structuredContent" not in answer
    return str(answer["content"][0]["text"])


def failing(error: Exception) -> FakeEngine:
    return FakeEngine(error)


async def test_a_text_alone_is_stored() -> None:
    answer = await adding().execute({"text": "Python is a language."})
    assert answer["isError"] is False
    assert answer["content"][0]["text"] == (
        "Memory stored successfully.\nID: id-1\nChunks created: 1\nPreview: Python is a language."
    )
    assert answer["structuredContent"] == {
        "memory_id": "id-1",
        "chunks_created": 1,
        "text_preview": "Python is a language.",
        "duplicate": False,
        "replaced": False,
    }


async def test_metadata_goes_with_the_text() -> None:
    engine = FakeEngine()
    metadata = {"source": "user", "tags": ["a", "b"], "timestamp": "2026-05-01T12:00:00Z", "deep": {"x": [1, None]}}
    answer = await adding(engine).execute({"text": "text", "metadata": metadata})
    assert answer["isError"] is False
    assert engine.memories == [("text", metadata)]


async def test_the_longest_text_is_stored() -> None:
    engine = FakeEngine()
    text = "x" * MAX_TEXT_LENGTH
    answer = await adding(engine).execute({"text": text})
    assert answer["isError"] is False
    assert engine.calls == [{"text": text, "metadata": {}}]
    assert answer["structuredContent"]["text_preview"] == "x" * 100 + "..."


@pytest.mark.parametrize(
    "text", ["Emoji 🦜👩‍👩‍👧", "中文字符", "Привет, мир", "שלום", "e\u0301 is not \u00e9", "a\u0000b\u2028c"]
)
async def test_every_script_is_kept(text: str) -> None:
    engine = FakeEngine()
    answer = await adding(engine).execute({"text": text})
    assert engine.memories == [(text, {})]
    assert text in answer["content"][0]["text"]


async def test_code_is_kept_as_it_is() -> None:
    engine = FakeEngine()
    code = "def greet(name):\n\tif name:\n        return f'Hello, {name}!'  # \\n stays"
    answer = await adding(engine).execute({"text": code, "metadata": {"language": "python"}})
    assert answer["isError"] is False
    assert engine.memories == [(code, {"language": "python"})]


@pytest.mark.parametrize("text", [" ", "   \n\t  ", "\u00a0\u2003\u3000"])
async def test_a_text_of_spaces_is_refused(text: str) -> None:
    engine = FakeEngine()
    assert await refusal_of({"text": text}, engine) == "Error: text cannot be empty or whitespace-only"
    assert engine.calls == []


async def test_an_empty_text_is_refused() -> None:
    assert await refusal_of({"text": ""}) == "Error: text must have at least 1 character"


async def test_a_text_over_the_limit_is_refused() -> None:
    words = await refusal_of({"text": "x" * (MAX_TEXT_LENGTH + 1)})
    assert words == "Error: text exceeds maximum length of 10,000,000 characters"


async def test_a_missing_text_is_refused() -> None:
    assert await refusal_of({"metadata": {"source": "test"}}) == "Error: field required: text"


@pytest.mark.parametrize("text", [123, 1.5, True, None, ["text"], {"text": "text"}, b"bytes"])
async def test_a_text_of_a_wrong_type_is_refused(text: object) -> None:
    assert await refusal_of({"text": text}) == "Error: text must be a string"


@pytest.mark.parametrize(
    ("metadata", "kind"), [("invalid", "string"), (5, "number"), (True, "boolean"), (["source"], "array")]
)
async def test_metadata_of_a_wrong_type_is_refused(metadata: object, kind: str) -> None:
    words = await refusal_of({"text": "valid", "metadata": metadata})
    assert words == f"Error: metadata must be an object/dict, not {kind}"


@pytest.mark.parametrize("value", [lambda: None, object(), {1, 2}, float("nan"), float("inf"), "\ud800"])
async def test_metadata_that_is_no_json_is_refused(value: object) -> None:
    words = await refusal_of({"text": "test", "metadata": {"valid": "field", "deep": [{"value": value}]}})
    assert words == "Error: metadata must be JSON-serializable (no functions, classes, etc.)"


async def test_a_database_that_cannot_be_reached_is_said_and_nothing_more() -> None:
    words = await refusal_of({"text": "test"}, failing(DatabaseError("Connection to falkor.internal:6379 lost")))
    assert words == UNAVAILABLE


async def test_a_failure_to_process_is_said_and_nothing_more() -> None:
    words = await refusal_of({"text": "test"}, failing(ProcessingError("Tokenizer of /opt/model failed")))
    assert words == INTERNAL


async def test_an_unexpected_error_is_said_and_nothing_more() -> None:
    words = await refusal_of({"text": "test"}, failing(AttributeError("'NoneType' object has no attribute 'embed'")))
    assert words == INTERNAL


async def test_the_start_of_a_call_is_logged_with_its_id() -> None:
    with captured_log("debug") as log:
        await adding().execute({"text": "one"})
        await adding().execute({"text": "two"})
    started = [line for line in log.lines if line["event"] == "tool_started"]
    assert [line["tool"] for line in started] == ["add_memory", "add_memory"]
    assert len({line["request_id"] for line in started}) == 2
    assert "request_id" not in structlog.contextvars.get_contextvars()


async def test_a_refusal_is_logged_as_a_warning() -> None:
    with captured_log() as log:
        await adding().execute({})
    line = log.of("tool_refused")
    assert (line["level"], line["tool"], line["error_type"]) == ("warning", "add_memory", "ValidationError")
    assert line["request_id"]


async def test_a_failure_is_logged_with_its_traceback() -> None:
    with captured_log() as log:
        await adding(failing(ProcessingError("Embedding failed"))).execute({"text": "test"})
    line = log.of("tool_failed")
    assert (line["level"], line["tool"], line["error_type"]) == ("error", "add_memory", "ProcessingError")
    assert "Traceback (most recent call last)" in line["exception"]
    assert "ProcessingError: Embedding failed" in line["exception"]


async def test_a_success_is_logged_with_its_id_and_its_chunks() -> None:
    with captured_log("debug") as log:
        await adding().execute({"text": "test"})
    line = log.of("tool_succeeded")
    assert (line["memory_id"], line["chunks_created"]) == ("id-1", 1)
    assert line["request_id"] == log.of("tool_started")["request_id"]


async def test_a_good_answer_has_the_form_that_clients_expect() -> None:
    tool = adding()
    answer = await tool.execute({"text": "test"})
    jsonschema.validate(answer, ANSWER_SCHEMA)
    jsonschema.validate(answer["structuredContent"], tool.output_schema)
    assert answer["isError"] is False


@pytest.mark.parametrize("error", [None, DatabaseError("x"), RuntimeError("x")])
async def test_an_error_answer_has_the_form_that_clients_expect(error: Exception | None) -> None:
    answer = await adding(FakeEngine(error)).execute({} if error is None else {"text": "test"})
    jsonschema.validate(answer, ANSWER_SCHEMA)
    assert answer["isError"] is True
    assert answer["content"][0]["text"].startswith("Error: ")


@pytest.mark.parametrize("arguments", [{"text": "test"}, {}, {"text": "a\nb\n\nc" * 1000}, None])
async def test_an_answer_is_one_block(arguments: Any) -> None:
    assert len((await adding().execute(arguments))["content"]) == 1


@pytest.mark.parametrize("arguments", [{"text": "test"}, {}, {"text": 5}, None])
async def test_the_block_is_text(arguments: Any) -> None:
    (block,) = (await adding().execute(arguments))["content"]
    assert block["type"] == "text"
    assert isinstance(block["text"], str)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"text": 5, "metadata": [], "colour": "red"}, ["text must be a string", "metadata must be", "field: colour"]),
        ("text", ["arguments must be an object/dict, not string"]),
        (None, ["arguments must be an object/dict, not null"]),
    ],
)
async def test_arguments_are_checked_before_anything_is_done(arguments: Any, words: list[str]) -> None:
    engine = FakeEngine()
    refusal = await refusal_of(arguments, engine)
    assert all(each in refusal for each in words)
    assert engine.calls == []


async def test_the_engine_is_asked_once_with_what_was_sent() -> None:
    engine = FakeEngine()
    await adding(engine).execute(
        {"text": "\n padded \t", "metadata": {"a": 1}, "key": "favourite drink", "workspace": "work"}
    )
    assert engine.calls == [
        {"text": "padded", "metadata": {"a": 1}, "key": "favourite drink", "workspace": "work"},
    ]


class Settled(FakeEngine):
    """Has the receipt that it is given for every text, and one memory."""

    def __init__(self, receipt: MemoryResult, metadata: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.receipt = receipt
        self.memory = Memory(receipt.memory_id, "tea", metadata or {}, NOON)

    async def add_memory(self, text: str, metadata: dict[str, Any], **options: Any) -> MemoryResult:
        return self.receipt

    async def get_memory(self, memory_id: str, **options: Any) -> Memory:
        await self._note(memory_id=memory_id, **options)
        assert memory_id == self.memory.id
        return self.memory


async def test_a_memory_that_took_another_s_place_is_told() -> None:
    receipt = MemoryResult("next-id", 1, "tea", replaced=True)
    answer = await adding(Settled(receipt)).execute({"text": "tea"})
    assert answer["content"][0]["text"] == (
        "Memory stored successfully.\nID: next-id\nChunks created: 1\nPreview: tea\n"
        "Note: the earlier memory of this key was replaced; it is kept as history."
    )
    assert answer["structuredContent"] == attrs.asdict(receipt)


KNOWN = MemoryResult("first-id", 3, "tea", duplicate=True)
KNOWN_TEXT = "The same text was stored before; nothing was added.\nID: first-id\nChunks created: 0\nPreview: tea"


async def test_a_text_that_is_there_already_is_not_called_stored() -> None:
    engine = Settled(KNOWN, {"tags": ["a"]})
    answer = await adding(engine).execute({"text": "tea"})
    assert answer["content"][0]["text"] == KNOWN_TEXT
    assert answer["structuredContent"] == attrs.asdict(KNOWN) | {"chunks_created": 0}
    assert engine.calls == [], "where nothing was given, nothing was lost"


@pytest.mark.parametrize(
    ("metadata", "stored", "lost"),
    [
        ({"tags": ["b"]}, {"tags": ["a"]}, True),
        ({"k": 1}, {}, True),
        ({"k": None}, {}, True),
        ({"deep": {"x": [1]}, "tags": ["a"]}, {"tags": ["a"], "deep": {"x": [2]}}, True),
        ({"deep": {"x": [1]}, "tags": ["a"]}, {"tags": ["a"], "deep": {"x": [1]}, "more": 1}, False),
        ({}, {"tags": ["a"]}, False),
    ],
)
async def test_metadata_that_a_known_text_does_not_get_is_told(
    metadata: dict[str, Any], stored: dict[str, Any], lost: bool
) -> None:
    tool = adding(Settled(KNOWN, stored))
    answer = await tool.execute({"text": "tea", "metadata": metadata})
    note = "the memory's metadata and tags are as before, not as they were given now; update_memory replaces them."
    assert answer["content"][0]["text"] == KNOWN_TEXT + (f"\nNote: {note}" if lost else "")
    assert answer["structuredContent"].get("notice") == (note if lost else None)
    jsonschema.validate(answer["structuredContent"], tool.output_schema)


async def test_a_known_text_is_compared_in_the_workspace_that_it_was_added_to() -> None:
    engine = Settled(KNOWN)
    await adding(engine).execute({"text": "tea", "metadata": {"k": 1}, "workspace": "home"})
    await adding(engine).execute({"text": "tea", "metadata": {"k": 1}})
    assert [call["workspace"] for call in engine.calls] == ["home", "default"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValidationError("key is reserved"), "Error: key is reserved"),
        (NotFoundError("workspace 'attic' does not exist"), "Error: workspace 'attic' does not exist"),
        (ConfigError("falkordb_url has no host"), "Error: falkordb_url has no host"),
        (DatabaseError("secret"), UNAVAILABLE),
        (EmbeddingError("secret"), "The embedding model is unavailable"),
        (ProcessingError("secret"), INTERNAL),
        (KeyError("secret"), INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_every_kind_of_error_has_its_words(error: Exception, words: str) -> None:
    assert words in await refusal_of({"text": "test"}, failing(error))


async def count_calls(tool: AddMemoryTool, text: str) -> int:
    """Return how many functions a call runs: the same on every machine, where the clock is not."""
    called = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await tool.execute({"text": text})
    finally:
        sys.setprofile(before)
    return called


async def test_a_small_text_takes_little_work() -> None:
    """A function call takes a microsecond at the most: far below fifty milliseconds in all."""
    tool = adding()
    with captured_log():
        await count_calls(tool, "first")  # what is made once is made here
        assert 0 < await count_calls(tool, "x" * 1024) < 2000


async def test_a_large_text_is_neither_copied_nor_walked() -> None:
    """The same number of calls as for a small one, and no second copy: what is left is one scan in C."""
    tool = adding()
    text = "x" * MAX_TEXT_LENGTH
    with captured_log():
        await count_calls(tool, "first")
        assert await count_calls(tool, text) <= await count_calls(tool, "x" * 1024) + 10
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await tool.execute({"text": text})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < len(text) / 10


SECRETS = ("hunter2", "/home/user/.zapomni", "10.0.0.7:6379", "SELECT", "0x7f")


@pytest.mark.parametrize("kind", [DatabaseError, EmbeddingError, ProcessingError, RuntimeError, OSError, KeyError])
async def test_an_error_leaks_nothing_of_its_inside(kind: type[Exception]) -> None:
    error = kind("password hunter2 at 10.0.0.7:6379, /home/user/.zapomni/db, SELECT * FROM x, <object at 0x7f>")
    error.__cause__ = OSError("hunter2")
    words = await refusal_of({"text": "test"}, failing(error))
    assert not [secret for secret in SECRETS if secret in words]


@pytest.mark.parametrize("kind", [DatabaseError, EmbeddingError, ProcessingError, RuntimeError])
async def test_an_error_answer_holds_no_stack_trace(kind: type[Exception]) -> None:
    words = await refusal_of({"text": "test"}, failing(kind("boom")))
    assert not [part for part in ("Traceback", 'File "', "line ", kind.__name__, ".py", "boom") if part in words]
    assert "\n" not in words


async def test_metadata_may_be_long() -> None:
    engine = FakeEngine()
    metadata = {f"field_{number}": f"value_{number}" for number in range(10_000)}
    assert (await adding(engine).execute({"text": "test", "metadata": metadata}))["isError"] is False
    assert engine.memories == [("test", metadata)]


async def test_null_stands_for_an_argument_that_was_left_out() -> None:
    engine = FakeEngine()
    await adding(engine).execute({"text": "test", "metadata": None, "key": None, "workspace": None})
    assert engine.calls == [{"text": "test", "metadata": {}}]


async def test_progress_goes_to_the_client_that_asked_for_it() -> None:
    async def report(done: float, total: float | None, words: str | None) -> None:
        raise AssertionError("the engine has nothing to report here")

    engine = FakeEngine()
    with answering(Call(report)):
        await adding(engine).execute({"text": "test"})
    assert engine.calls == [{"text": "test", "metadata": {}, "progress": report}]


async def test_an_error_in_a_nursery_of_the_engine_has_its_usual_words() -> None:
    class Branching(FakeEngine):
        async def add_memory(self, text: str, metadata: dict[str, Any], **options: Any) -> MemoryResult:
            async with trio.open_nursery() as outer, trio.open_nursery() as inner:
                outer.start_soon(trio.sleep_forever)
                inner.start_soon(failing(DatabaseError("lost")).get_stats)
            raise AssertionError("not reached")

    assert await refusal_of({"text": "test"}, Branching()) == UNAVAILABLE


async def test_several_errors_at_once_are_an_internal_error_unless_they_are_alike() -> None:
    error = ExceptionGroup("both", [DatabaseError("secret"), ValueError("secret")])
    assert await refusal_of({"text": "test"}, failing(error)) == INTERNAL
    alike = ExceptionGroup("both", [DatabaseError("secret"), DatabaseError("secret")])
    assert "Database temporarily unavailable" in await refusal_of({"text": "test"}, failing(alike))


async def test_cancellation_passes_through(autojump_clock: trio.testing.MockClock) -> None:
    class Stuck(FakeEngine):
        async def add_memory(self, text: str, metadata: dict[str, Any], **options: Any) -> MemoryResult:
            await trio.sleep_forever()
            raise AssertionError("not reached")

    answers: list[object] = []
    with captured_log("debug") as log, trio.move_on_after(1) as scope:
        answers.append(await adding(Stuck()).execute({"text": "test"}))
    assert scope.cancelled_caught
    assert answers == []
    assert [line["event"] for line in log.lines] == ["tool_started"]


MARKER = "Zg7mark3rQ"
MARKED = st.builds(lambda before, after: f"{before}{MARKER}{after}", st.text(max_size=30), st.text(max_size=30))
ERRORS = st.sampled_from([None, DatabaseError("lost"), EmbeddingError("down"), ProcessingError("bad"), KeyError("x")])


@AT_ANY_SPEED
@given(text=MARKED, error=ERRORS, data=st.data())
async def test_no_text_of_a_memory_is_logged(text: str, error: Exception | None, data: st.DataObject) -> None:
    arguments = data.draw(
        st.sampled_from(
            [
                {"text": text},
                {"text": text, "metadata": {"note": text}, "key": text, "workspace": text},
                {"text": text, "metadata": {text: float("nan")}},
                {"text": text, "metadata": text},
                {"text": [text]},
                {"text": text + "\ud800"},
                {"text": text, "key": text * 100},
                {"query": text},
                {"query": text, "limit": text},
                {"query": text, "date_from": text},
                {"query": text, "tags": [text, 5]},
                text,
                [text],
            ]
        )
    )
    server = server_with(engine=FakeEngine(error))
    server.register_all_tools()
    tool = data.draw(st.sampled_from(["add_memory", "search_memory", "get_stats"]))
    with captured_log("info") as log:
        await server.handle_request({"method": "tools/call", "params": {"name": tool, "arguments": arguments}, "id": 1})
    assert log.of("request")["tool"] == tool
    assert MARKER not in log.text
