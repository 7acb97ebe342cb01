"""Clients' settings: adding our server to them, taking it out, and saying which is the case.

Every function works on one file and changes nothing by itself: it returns a `Change` that can be shown or applied.
Whatever an edit produces is parsed again and compared with what was there; if anything but our own entry differs,
the edit is refused with a `ConfigError` and the file stays as it is.

A missing or blank file comes back from an uninstall as an empty one of its kind. Every other file comes back to
the byte.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from zapomni.clients import jsonc, toml
from zapomni.clients.catalog import CLIENTS, ENTRY, Client, Machine, find
from zapomni.clients.change import Change, read
from zapomni.clients.hiding import HIDDEN
from zapomni.clients.launch import Launch, starts_us
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "CLIENTS",
    "HIDDEN",
    "Change",
    "Client",
    "Launch",
    "Machine",
    "Status",
    "find",
    "install",
    "snippet",
    "status",
    "uninstall",
]

# Fields of an entry that say how a server is reached; another way of reaching it must not stay beside ours.
_TRANSPORT = frozenset({"type", "transport", "url", "serverUrl", "httpUrl", "headers"})
_MARK = "\ufeff"


class Status(StrEnum):
    """How a client's settings stand to us."""

    ABSENT = "absent"
    INSTALLED = "installed"
    DIFFERENT = "different"
    """There is an entry of our name that starts something else."""


class _Syntax(Protocol):
    def parse(self, text: str) -> dict[str, Any]: ...
    def put(self, text: str, table: str, name: str, entry: Mapping[str, Any]) -> str: ...
    def drop(self, text: str, table: str, name: str) -> str: ...
    def hide(self, text: str, shown: Iterable[str]) -> str: ...
    def render(self, table: str, name: str, entry: Mapping[str, Any]) -> str: ...


_SYNTAXES: dict[str, _Syntax] = {"json": jsonc, "toml": toml}


def status(client: Client, launch: Launch, path: Path) -> Status:
    """Tell whether the file starts our server, and in this way. Raises `ConfigError` if it cannot be read."""
    _, text = _load(path)
    with _naming(path):
        found = _entry(_SYNTAXES[client.syntax].parse(text), client)
    if found is None:
        return Status.ABSENT
    return Status.INSTALLED if _matches(found, client.entry(launch)) else Status.DIFFERENT


def install(client: Client, launch: Launch, path: Path, *, replace: bool = False) -> Change:
    """Work out how our server gets into the file; an entry that already matches changes nothing.

    Raises `ConfigError` if the file cannot be read or edited safely, and, unless `replace` is set, if it has a
    different entry of our name. Replacing keeps what the person or the client has added to the entry.
    """
    before, text = _load(path)
    syntax = _SYNTAXES[client.syntax]
    with _naming(path):
        values = syntax.parse(text)
        entry = client.entry(launch)
        found = _entry(values, client)
        if found is not None:
            if _matches(found, entry):
                return Change(path, before, before or b"")
            if not replace:
                raise ConfigError(f'it has a different "{ENTRY}" entry; if it is yours, --replace replaces it')
            entry = _merged(found, entry)
        after = syntax.put(text, client.table, ENTRY, entry)
        _verify(values, syntax.parse(after), client, entry)
    return Change(path, before, _encode(after, before), partial(syntax.hide, shown=tuple(_texts(client.entry(launch)))))


def uninstall(client: Client, path: Path, *, replace: bool = False) -> Change:
    """Work out how our entry leaves the file.

    Raises `ConfigError`, and, unless `replace` is set, also for an entry of our name that starts something else.
    """
    before, text = _load(path)
    syntax = _SYNTAXES[client.syntax]
    with _naming(path):
        values = syntax.parse(text)
        found = _entry(values, client)
        if found is None:
            return Change(path, before, before or b"")
        if not replace and not starts_us(found):
            raise ConfigError(f'its "{ENTRY}" entry starts something else; if it is yours, --replace takes it out')
        after = syntax.drop(text, client.table, ENTRY)
        _verify(values, syntax.parse(after), client, None)
    return Change(path, before, _encode(after, before), partial(syntax.hide, shown=()))


def snippet(client: Client, launch: Launch) -> str:
    """Return what a person would write into the client's settings by hand."""
    return _SYNTAXES[client.syntax].render(client.table, ENTRY, client.entry(launch))


def _load(path: Path) -> tuple[bytes | None, str]:
    try:
        content = read(path)
        return content, (content or b"").decode().removeprefix(_MARK)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error


def _encode(text: str, before: bytes | None) -> bytes:
    mark = _MARK.encode()
    return (mark if (before or b"").startswith(mark) else b"") + text.encode()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the file's path before what is wrong with it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{path} is left as it is: {error}") from error


def _entry(values: Mapping[str, Any], client: Client) -> dict[str, Any] | None:
    table = values.get(client.table, {})
    if not isinstance(table, dict):
        raise ConfigError(f'"{client.table}" is not a table of servers')
    found = table.get(ENTRY)
    if found is None or isinstance(found, dict):
        return found
    raise ConfigError(f'"{client.table}.{ENTRY}" is not a server')


def _matches(found: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Compare what we write; what else stands in the entry is the person's or the client's own affair."""
    env = found.get("env") or {}
    same = all(
        found.get(field) == value for field, value in entry.items() if field not in ("env", *_TRANSPORT, "source")
    )
    return same and isinstance(env, dict) and env.items() >= entry.get("env", {}).items()


def _texts(value: object) -> Iterator[str]:
    """Yield every text in an entry."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _merged(found: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {field: value for field, value in found.items() if field not in _TRANSPORT}
    env = found.get("env")
    both = {"env": {**env, **entry.get("env", {})}} if isinstance(env, dict) else {}
    return {**kept, **entry, **both}


def _verify(
    before: Mapping[str, Any], after: Mapping[str, Any], client: Client, entry: Mapping[str, Any] | None
) -> None:
    """Make sure that our entry, and nothing else, is what differs."""
    if _entry(after, client) != entry or _others(before, client) != _others(after, client):
        raise ConfigError(f'it cannot be edited without touching more than the "{ENTRY}" entry; please edit it by hand')


def _others(values: Mapping[str, Any], client: Client) -> str:
    """Everything but our entry, as text: there, unlike among values, a NaN equals itself and 1 is not 1.0."""
    rest = {name: server for name, server in values.get(client.table, {}).items() if name != ENTRY}
    others = {key: value for key, value in values.items() if key != client.table}
    return repr((others, rest))
