"""What all tests share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid
from typing import TYPE_CHECKING

import attrs
import hypothesis
import pytest

from tests.engines import FakeEmbedder, open_engine_with
from tests.servers import start_server, wait_until_it_listens
from zapomni.config import Settings
from zapomni.engine import open_engine
from zapomni.errors import NotFoundError
from zapomni.store import reaper
from zapomni.store.connection import open_connection
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from zapomni.engine import MemoryEngine
    from zapomni.store.connection import Connection
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("zapomni", deadline=None)
hypothesis.settings.load_profile("zapomni")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the scenarios that take minutes")
    parser.addoption("--hard-seconds", type=float, default=12, help="how long the hard-to-kill suite goes on")
    parser.addoption("--hard-seed", type=int, help="repeat the faults of an earlier run")
    parser.addoption("--remote", action="store_true", help="run on a server reached over TCP, not the embedded one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="many rounds; run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def store_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings for one server that lives as long as the run."""
    directory = tmp_path_factory.mktemp("data")
    running = remote_store(directory) if request.config.getoption("--remote") else embedded_store(directory)
    with running as settings:
        yield settings


@contextlib.contextmanager
def embedded_store(directory: Path) -> Iterator[Settings]:
    store = directory / "store"
    store.mkdir(mode=0o700)
    client = reaper.open_lock(store, reaper.CLIENTS)
    fcntl.flock(client, fcntl.LOCK_SH)  # one client more, so that the server stays between two tests
    yield Settings(data_dir=directory, store_linger=0.1)
    os.close(client)
    server = reaper.open_lock(store, reaper.SERVER)
    until = time.monotonic() + 20
    while not reaper.try_lock(server, fcntl.LOCK_EX):
        assert time.monotonic() < until, "the store outlived its last client"
        time.sleep(0.02)
    os.close(server)


@contextlib.contextmanager
def remote_store(directory: Path) -> Iterator[Settings]:
    server = start_server(directory, "--requirepass", "secret", graph=True, sentinel=False)
    try:
        wait_until_it_listens(server)
        yield Settings(data_dir=directory / "unused", falkordb_url=f"falkor://:secret@127.0.0.1:{server.port}")
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture
async def connection(store_settings: Settings) -> AsyncIterator[Connection]:
    """A connection to the run's server, whatever is in it."""
    async with open_connection(store_settings) as connection:
        yield connection


@pytest.fixture
async def store(store_settings: Settings) -> AsyncIterator[Store]:
    """A store on the run's server."""
    async with open_store(store_settings) as store:
        yield store


@pytest.fixture
async def engine(store_settings: Settings) -> AsyncIterator[MemoryEngine]:
    """An engine on the run's embedded server; its current workspace is empty, and the test's own."""
    name = f"test-{uuid.uuid4().hex}"
    async with open_engine(attrs.evolve(store_settings, workspace=name)) as engine:
        yield engine
        with contextlib.suppress(NotFoundError):
            await engine.delete_workspace(name)


@pytest.fixture
def embedder() -> FakeEmbedder:
    """The model of `simple_engine`."""
    return FakeEmbedder()


@pytest.fixture
async def simple_engine(store_settings: Settings, embedder: FakeEmbedder) -> AsyncIterator[MemoryEngine]:
    """The same as `engine`, with a model that can be told to fail or to wait."""
    name = f"test-{uuid.uuid4().hex}"
    async with open_engine_with(attrs.evolve(store_settings, workspace=name), embedder) as engine:
        yield engine
        with contextlib.suppress(NotFoundError):
            await engine.delete_workspace(name)


@pytest.fixture
async def workspace(store: Store) -> AsyncIterator[Workspace]:
    """An empty workspace of the test's own."""
    name = f"test-{uuid.uuid4().hex}"
    await store.create_workspace(name)
    yield store.workspace(name)
    await store.delete_workspace(name)
