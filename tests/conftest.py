"""What all tests share."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from zapomni.config import Settings
from zapomni.store import reaper
from zapomni.store.connection import open_connection
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from zapomni.store.connection import Connection
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the scenarios that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="many rounds; run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def store_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings for one embedded server that lives as long as the run."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"), store_linger=0.1)
    directory = settings.data_dir / "store"
    directory.mkdir(mode=0o700)
    client = reaper.open_lock(directory, reaper.CLIENTS)
    fcntl.flock(client, fcntl.LOCK_SH)  # one client more, so that the server stays between two tests
    yield settings
    os.close(client)
    server = reaper.open_lock(directory, reaper.SERVER)
    until = time.monotonic() + 20
    while not reaper.try_lock(server, fcntl.LOCK_EX):
        assert time.monotonic() < until, "the store outlived its last client"
        time.sleep(0.02)
    os.close(server)


@pytest.fixture
async def connection(store_settings: Settings) -> AsyncIterator[Connection]:
    """A connection to the run's embedded server, whatever is in it."""
    async with open_connection(store_settings) as connection:
        yield connection


@pytest.fixture
async def store(store_settings: Settings) -> AsyncIterator[Store]:
    """A store on the run's embedded server."""
    async with open_store(store_settings) as store:
        yield store


@pytest.fixture
async def workspace(store: Store) -> AsyncIterator[Workspace]:
    """An empty workspace of the test's own."""
    name = f"test-{uuid.uuid4().hex}"
    await store.create_workspace(name)
    yield store.workspace(name)
    await store.delete_workspace(name)
