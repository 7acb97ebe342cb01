"""Log lines: JSON on stderr, one canonical line per request, nothing on stdout ever."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import select
import sys
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from typing import TextIO

    from structlog.typing import FilteringBoundLogger, Processor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# A library's info is our debug.
LIBRARIES = {"debug": logging.DEBUG, "info": logging.WARNING, "warning": logging.WARNING, "error": logging.ERROR}

# What these say at info is the address of every request, with the password in it; at debug it is the headers.
TALKATIVE = ("httpx", "httpcore")

# JSON lets them stand, but terminals obey them or turn the line round: controls, separators of lines, and what changes
# the direction of writing.
_OBEYED = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """Return JSON that says the same, and that no terminal obeys."""
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _as_json(fields: Any, **options: Any) -> str:
    return escape_controls(json.dumps(fields, ensure_ascii=False, **options))


_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    structlog.processors.JSONRenderer(_as_json),
]


class _Forgiving(io.StringIO):
    """A stream that loses lines rather than requests.

    A client may start a process without stderr, close it, or not read it: a line that would have to wait for its
    reader is lost, since the event loop would wait with it.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        stream = self._stream or sys.stderr
        if stream is not None:
            try:
                _write(stream, text)
            except BrokenPipeError:
                _lead_nowhere(stream)
            except (OSError, ValueError):
                pass
        return len(text)


def _write(stream: TextIO, text: str) -> None:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a file, so nothing that could keep us waiting
        stream.write(text)
        return
    data = text.encode("utf-8", "backslashreplace")
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    for start in range(0, len(data), select.PIPE_BUF):  # as much as a pipe that says it is ready takes at once
        if not ready.poll(0):
            return
        os.write(descriptor, data[start : start + select.PIPE_BUF])


def _lead_nowhere(stream: TextIO) -> None:
    """Give a stream that nobody reads a new end, so that what is left in it cannot fail again at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


class _Standard(logging.Handler):
    """Takes the log lines of libraries over.

    Their tracebacks may quote what was being handled, which may be a memory, so above debug level only the kind of
    the error is told.
    """

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        facts: dict[str, object] = {"error_type": type(error).__name__} if error else {}
        if error and logging.getLogger().isEnabledFor(logging.DEBUG):
            facts["exc_info"] = error
        get_logger(record.name).log(record.levelno, record.getMessage(), **facts)


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send every log line of this process, those of libraries included, to a stream, stderr by default."""
    logging.basicConfig(handlers=[_Standard()], level=LIBRARIES[level], force=True)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(max(LIBRARIES[level], logging.WARNING))
    structlog.configure(
        processors=_PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(_Forgiving(stream)),
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a logger whose lines carry the name of the part that writes them."""
    logger: FilteringBoundLogger = structlog.get_logger(part=name)
    return logger
