"""The store: workspaces on one connection."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
from anyio import to_thread

from zapomni.store.connection import open_connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.models import WorkspaceInfo
    from zapomni.store.connection import Connection
    from zapomni.store.space import Space
    from zapomni.store.workspace import Workspace


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the store; nothing waits for the database before the first call."""
    async with open_connection(settings) as connection:
        yield Store(connection)


@attrs.frozen
class Store:
    """All workspaces; which one a call is for is said by the call, and by nothing else."""

    connection: Connection
    _opened: set[str] = attrs.field(factory=set, init=False)
    _swept: set[str] = attrs.field(factory=set, init=False)

    async def ready(self) -> None:
        """Wait until the database answers, and load meanwhile what the first call needs."""
        await to_thread.run_sync(_load)
        await self.connection.ready()

    def workspace(self, name: str) -> Workspace:
        """Return a workspace, whether it exists or not; raises `ValidationError` for what is no name."""
        from zapomni.store.workspace import Workspace  # with numpy, for which no handshake should wait

        return Workspace(self._space(name))

    async def create_workspace(self, name: str) -> bool:
        """Make a workspace; return whether it is new."""
        from zapomni.store import workspaces

        return await workspaces.create(self._space(name, fresh=True))

    async def list_workspaces(self) -> tuple[WorkspaceInfo, ...]:
        """Return all workspaces by name, with what is in them; the default one is always among them."""
        from zapomni.store import workspaces

        return await workspaces.every(self)

    async def delete_workspace(self, name: str) -> WorkspaceInfo:
        """Remove a workspace and everything in it for good; return what was in it. Raises `NotFoundError`.

        The default workspace is empty afterwards, and there again when it is next used.
        """
        from zapomni.store import workspaces

        return await workspaces.delete(self._space(name, fresh=True))

    async def empty_workspace(self, name: str) -> WorkspaceInfo:
        """Remove everything in a workspace for good and keep the workspace; return what was in it.

        Raises `NotFoundError`.
        """
        from zapomni.store import workspaces

        return await workspaces.empty(self._space(name, fresh=True))

    async def finish_removals(self) -> None:
        """Remove what is left of workspaces whose removal broke off."""
        from zapomni.store import workspaces

        await workspaces.finish_removals(self.connection, lambda name: self._space(name, fresh=True))

    async def back_up(self, path: Path) -> None:
        """Write all workspaces into one file, as they are at one moment each, while everybody goes on writing.

        The file is private, carries a checksum, and appears only when it is whole. Raises `ConfigError`.
        """
        from zapomni.store import backup

        names = [info.name for info in await self.list_workspaces()]
        await backup.back_up([self._space(name, fresh=True) for name in names], path)

    async def restore(self, path: Path) -> tuple[str, ...]:
        """Bring back the workspaces of a backup, and return their names.

        Raises `ConfigError` when the file is damaged, or one of the workspaces is in use here.
        """
        from zapomni.store import recovery

        return await recovery.restore(path, lambda name: self._space(name, fresh=True))

    def _space(self, name: str, *, fresh: bool = False) -> Space:
        from zapomni.store.names import Keys, workspace_name
        from zapomni.store.space import Space

        return Space(self.connection, Keys(workspace_name(name)), self._opened, self._swept, fresh)


def _load() -> None:
    import zapomni.store.workspace  # noqa: F401
