"""Log lines: JSON on stderr, one canonical line per request, nothing on stdout ever."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from typing import TextIO

    from structlog.typing import FilteringBoundLogger, Processor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_PROCESSORS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    structlog.processors.JSONRenderer(ensure_ascii=False),
]


class _Forgiving(io.StringIO):
    """A stream that loses lines rather than requests.

    A client may close stderr, or not read it; and where it shares a descriptor with stdout, that one is non-blocking.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            (self._stream or sys.stderr).write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            (self._stream or sys.stderr).flush()


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send every log line of this process to a stream, stderr by default."""
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
