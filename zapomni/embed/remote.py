"""Embedding servers over HTTP: one request that is bounded, retried where that can help, and read with suspicion."""

from __future__ import annotations

import json
import random
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import attrs
import trio

from zapomni.embed.known import identity
from zapomni.embed.vectors import unit
from zapomni.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from urllib.parse import SplitResult

    import httpx
    import numpy as np
    from numpy.typing import NDArray

    from zapomni.embed.known import Habits

ATTEMPTS = 3
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
HOLD_OFF = 1.0  # seconds that a failed check is remembered, so that who waited for it shares it and asks no more
BATCH = 64
SHORTEST = 64  # characters; a server that refuses even these as too long has another complaint
MOST_BYTES = 64 << 20  # of an answer; 64 vectors of 16,384 dimensions are less than half of that
CLOSING = 1.0

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_TOO_LONG = ("context length", "too long", "too large", "exceed", "maximum", "max_tokens")


class TooLong(EmbeddingError):
    """The server refused a text for its length."""


class Server:
    """An HTTP server that takes and returns JSON."""

    def __init__(self, url: str, timeout: float, api_key: str | None = None) -> None:
        parts = _parts_of(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError("embedding_url must start with http:// or https:// and name a host")
        self.place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        """The address as it may be shown: without a user, a password or a query."""
        self._parts = parts
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # A proxy that the environment names is not meant for this machine itself.
        self._trust_env = parts.hostname not in _LOOPBACK
        self._client: httpx.AsyncClient | None = None

    async def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Send JSON and return the status and the JSON that came back; raises `EmbeddingError`.

        Tries again when the server could not be reached, was too busy or failed by itself.
        """
        for attempt in range(1, ATTEMPTS + 1):
            pause = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            try:
                response = await self._send(path, body)
            except _Unreachable as error:
                if attempt == ATTEMPTS:
                    raise EmbeddingError(
                        f"the embedding server at {self.place} cannot be reached; is it running?"
                    ) from error.__cause__
            else:
                if response.status != 429 and response.status < 500:
                    return response.status, _json(response, self.place)
                if attempt == ATTEMPTS:
                    raise EmbeddingError(
                        f"the embedding server at {self.place} failed with status {response.status}"
                        f" {ATTEMPTS} times; look into its log"
                    )
                pause = max(pause, response.retry_after)
            await trio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _send(self, path: str, body: Mapping[str, Any]) -> _Response:
        client = await self._opened()
        import httpx

        try:
            with trio.fail_after(self._timeout):
                url = urlunsplit(self._parts._replace(path=self._parts.path.rstrip("/") + path))
                async with client.stream("POST", url, json=body) as response:
                    return _Response(response.status_code, _retry_after(response), await self._read(response))
        except UnicodeEncodeError as error:
            raise EmbeddingError("half a surrogate pair is no text that an embedding server takes") from error
        except (trio.TooSlowError, httpx.TimeoutException) as error:
            raise EmbeddingError(
                f"the embedding server at {self.place} did not answer within {self._timeout:g} s;"
                " a longer embedding_timeout may help"
            ) from error
        except httpx.ConnectError as error:
            raise _Unreachable from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EmbeddingError(f"the embedding server at {self.place} broke off its answer") from error

    async def _read(self, response: httpx.Response) -> bytes:
        """Return what was sent, unless it is more than anybody's vectors: it has to fit into our memory."""
        data = bytearray()
        with trio.CancelScope() as scope:
            async for part in response.aiter_bytes():
                data += part
                if len(data) > MOST_BYTES:
                    scope.cancel()  # unwinds the generators inside httpx, too, which leaving the loop does not
        if scope.cancel_called:
            raise EmbeddingError(
                f"the embedding server at {self.place} sent more than {MOST_BYTES:,} bytes for one answer"
            )
        return bytes(data)

    async def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            await trio.to_thread.run_sync(import_module, "httpx")  # which is slow
            import httpx

            if self._client is None:
                self._client = httpx.AsyncClient(headers=self._headers, timeout=None, trust_env=self._trust_env)
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            with trio.move_on_after(CLOSING, shield=True):
                await self._client.aclose()


def _parts_of(url: str) -> SplitResult:
    # Neither the text nor what Python says of it is kept: where a password has a slash, both show a part of it.
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.port is None or parts.port > 0:
            return parts
    raise ConfigError("embedding_url has a host or port that cannot be read; in a password, / is written %2F")


@attrs.frozen
class _Response:
    status: int
    retry_after: float
    data: bytes


class _Unreachable(Exception):
    """No connection could be made; nothing was sent."""


@asynccontextmanager
async def open_server(url: str, timeout: float, api_key: str | None = None) -> AsyncIterator[Server]:
    """Open a server without calling it yet."""
    server = Server(url, timeout, api_key)
    try:
        yield server
    finally:
        await server.aclose()


def _json(response: _Response, place: str) -> Any:
    try:
        return json.loads(response.data)
    except (ValueError, RecursionError) as error:
        raise EmbeddingError(
            f"what answers at {place} is no embedding server: status {response.status}, not JSON"
        ) from error


def _retry_after(response: httpx.Response) -> float:
    given = response.headers.get("retry-after", "")
    return min(float(given), LONGEST_PAUSE) if given.isdecimal() else 0.0


class RemoteEmbedder:
    """An embedder whose model runs in a server; `ask` and `read` know the server's wire format."""

    weight = 0.6

    def __init__(
        self,
        server: Server,
        name: str,
        habits: Habits,
        ask: Callable[[Sequence[str]], tuple[str, dict[str, Any]]],
        read: Callable[[Any], Sequence[Sequence[float]]],
        missing: str,
    ) -> None:
        self.name = identity(name, habits)
        self.dimension = 0
        self.multilingual = habits.multilingual
        self._server = server
        self._habits = habits
        self._ask = ask
        self._read = read
        self._missing = missing
        self._checking = trio.Lock()
        self._failure: tuple[float, EmbeddingError] | None = None

    async def ready(self) -> None:
        async with self._checking:
            if self.dimension:
                return
            if self._failure is not None and trio.current_time() < self._failure[0] + HOLD_OFF:
                raise type(self._failure[1])(*self._failure[1].args) from self._failure[1]
            self._failure = None
            try:
                await self._embed(["ready"])
            except EmbeddingError as error:
                self._failure = trio.current_time(), error
                raise

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        await self.ready()
        rows = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), BATCH):
            batch = [self._habits.document_prefix + text for text in texts[start : start + BATCH]]
            rows[start : start + BATCH] = await self._embed(batch)
        return rows

    async def embed_query(self, text: str, *, importance: Mapping[str, float] | None = None) -> NDArray[np.float32]:
        await self.ready()
        return (await self._embed([self._habits.query_prefix + text])).reshape(-1)

    async def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows; a text that is longer than the model's window becomes the mean of its parts."""
        import numpy as np

        try:
            return await self._request(texts)
        except TooLong:
            if len(texts) == 1 and len(texts[0]) < SHORTEST:
                raise
        if len(texts) > 1:
            middle = len(texts) // 2
            return np.concatenate([await self._embed(texts[:middle]), await self._embed(texts[middle:])])
        (text,) = texts
        halves = await self._embed([text[: len(text) // 2], text[len(text) // 2 :]])
        return unit(halves.mean(axis=0, keepdims=True))

    async def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        status, answer = await self._server.post(*self._ask(texts))
        if status == 404:
            raise EmbeddingError(self._missing)
        if status in {401, 403}:
            raise EmbeddingError(
                f"the embedding server at {self._server.place} refuses the key; check embedding_api_key"
            )
        if status != 200:
            said = str(answer).lower()
            if status in {400, 413, 422} and any(words in said for words in _TOO_LONG):
                raise TooLong(f"the embedding server at {self._server.place} refuses a text as too long")
            raise EmbeddingError(f"the embedding server at {self._server.place} refused with status {status}")
        try:
            rows = np.asarray(self._read(answer), dtype=np.float64)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            raise EmbeddingError(f"what answers at {self._server.place} does not send embeddings") from error
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise EmbeddingError(
                f"the embedding server at {self._server.place} sent no usable vectors: {len(texts)} were asked for"
            )
        if self.dimension and rows.shape[1] != self.dimension:
            raise EmbeddingError(
                f"the embedding server at {self._server.place} sent vectors of {rows.shape[1]} dimensions after"
                f" {self.dimension}; is another model behind it now?"
            )
        vectors = unit(rows, f"the embedding server at {self._server.place}")
        self.dimension = rows.shape[1]
        return vectors
