"""A salvage that is ended at any moment loses nothing."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trio

from tests.servers import server_of, wait_until_gone
from zapomni.config import Settings
from zapomni.errors import ConfigError, DatabaseError
from zapomni.store import reaper, salvage, seal
from zapomni.store.connection import open_connection

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
DAMAGED = WHOLE + bytes(4096) + WHOLE
NAME = "appendonly.aof.1.incr.aof"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return the files of a store, with damage in the middle of one."""
    folder = tmp_path / "store" / salvage.FILES
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(DAMAGED)
    (folder / "appendonly.aof.manifest").write_text(f"file {NAME} seq 1 type i\n")
    return folder


def copies(files: Path) -> list[bytes]:
    return [(folder / NAME).read_bytes() for folder in files.parent.glob("damaged-*")]


async def test_what_stands_before_the_damage_is_kept_and_all_of_it_copied(files: Path, tmp_path: Path) -> None:
    (files.parent / salvage.WORK).mkdir()  # one that was cut short
    (files.parent / salvage.WORK / "rest").touch()
    outcome = await salvage.salvage(Settings(data_dir=tmp_path))
    assert outcome.lost_bytes == len(DAMAGED) - len(WHOLE)
    assert (files / NAME).read_bytes() == WHOLE
    assert copies(files) == [DAMAGED]
    assert not (files.parent / salvage.WORK).exists()


@pytest.mark.parametrize("returncode", [0, 1])
async def test_nothing_is_changed_before_the_check_is_done(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returncode: int
) -> None:
    original = subprocess.run

    def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
        done = original(*arguments, **options)
        if not returncode:
            raise InterruptedError
        return subprocess.CompletedProcess(done.args, returncode, b"cannot\nbe fixed", b"")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InterruptedError if not returncode else DatabaseError):
        await salvage.salvage(Settings(data_dir=tmp_path))
    assert (files / NAME).read_bytes() == DAMAGED


@pytest.mark.parametrize("step", range(4))
async def test_a_salvage_that_cannot_be_and_is_killed_as_well_loses_nothing(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each removal and each copy may be the last thing that it does."""
    left = step

    def last(original: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            done, left = original(*arguments, **options), left - 1
            if left < 0:
                raise InterruptedError
            return done

        return wrapped

    failed = subprocess.CompletedProcess[bytes]([], 1, b"cannot be fixed", b"")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", lambda *_, **__: failed)
        patch.setattr(shutil, "rmtree", last(shutil.rmtree))
        patch.setattr(shutil, "copytree", last(shutil.copytree))
        with pytest.raises((InterruptedError, DatabaseError)):
            await salvage.salvage(Settings(data_dir=tmp_path))
    assert (files / NAME).read_bytes() == DAMAGED


async def keys_in(settings: Settings) -> list[str]:
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            return sorted(key.decode() for key in await connection.read("KEYS", "*"))


async def write_with_an_unfinished_rewrite(settings: Settings) -> tuple[Path, Path]:
    """Leave a closed store with two files that grow, `new` in the second; return both."""
    files = settings.data_dir / "store" / salvage.FILES
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            for number in range(40):
                await connection.write("SET", f"old{number:02}", "v" * 200)
            await connection.write("CONFIG", "SET", "rdb-key-save-delay", 200_000)
            await connection.write("BGREWRITEAOF")
            while len(list(files.glob("*.incr.aof"))) < 2:  # noqa: ASYNC110
                await trio.sleep(0.02)
            await connection.write("SET", "new", "v")
    await wait_until_gone(settings.data_dir, 30)
    first, second = sorted(files.glob("*.incr.aof"))
    return first, second


async def refused(settings: Settings) -> None:
    with pytest.raises(DatabaseError, match="nothing was changed"):
        await keys_in(settings)
    await wait_until_gone(settings.data_dir, 30)


@pytest.mark.parametrize("place", [0, 4000])
async def test_nothing_that_was_written_after_the_damage_is_kept(tmp_path: Path, place: int) -> None:
    """A rewrite that did not come to its end leaves two files; without all of the first the second makes no sense."""
    settings = Settings(data_dir=tmp_path, store_linger=0)
    first, second = await write_with_an_unfinished_rewrite(settings)
    content = bytearray(first.read_bytes())
    content[place + 100 : place + 500] = bytes(400)
    first.write_bytes(content)
    (first.parent / seal.SEAL).unlink()
    await refused(settings)
    await salvage.salvage(settings)
    kept = await keys_in(settings)
    assert "new" not in kept
    assert kept == [f"old{number:02}" for number in range(len(kept))]
    assert len(kept) >= place // 300
    assert len(kept) < 40
    assert not second.exists()
    await wait_until_gone(tmp_path, 30)
    assert await keys_in(settings) == kept
    await wait_until_gone(tmp_path, 30)


async def test_a_file_that_lost_its_end_is_not_gone_on_from_in_the_next(tmp_path: Path) -> None:
    """Cut between two commands it is whole in its structure, and the server would see nothing."""
    settings = Settings(data_dir=tmp_path, store_linger=0)
    first, second = await write_with_an_unfinished_rewrite(settings)
    content = first.read_bytes()
    first.write_bytes(content[: content.rindex(b"*3\r\n$3\r\nSET")])
    await refused(settings)
    await salvage.salvage(settings)
    kept = await keys_in(settings)
    assert kept == [f"old{number:02}" for number in range(39)]
    assert not second.exists()
    await wait_until_gone(tmp_path, 30)


async def test_where_only_a_checksum_tells_of_damage_all_is_kept(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    first, _ = await write_with_an_unfinished_rewrite(settings)
    content = bytearray(first.read_bytes())
    content[content.index(b"v" * 200) + 100] ^= 2
    first.write_bytes(content)
    await refused(settings)
    outcome = await salvage.salvage(settings)
    assert (outcome.lost_bytes, outcome.doubtful_bytes) == (0, seal.BLOCK)
    assert outcome.copy is not None
    assert (outcome.copy / first.name).read_bytes() == content
    assert await keys_in(settings) == ["new", *(f"old{number:02}" for number in range(40))]
    await wait_until_gone(tmp_path, 30)


async def closed_with_one_key(settings: Settings) -> Path:
    """Leave a closed store, and return its list of files."""
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            await connection.write("SET", "n", 1)
    await wait_until_gone(settings.data_dir, 30)
    return settings.data_dir / "store" / salvage.FILES / seal.MANIFEST


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"type i", b"type h"),  # by which the server would take the file for one that it may remove
        (b"file appendonly.aof.1.incr", b"fIle appendonly.aof.1.incr"),
        (b"seq 1 type i", b"seq 0 type i"),
        (b"1.incr.aof", b"2.incr.aof"),
        (b"\n", b"\xff"),
    ],
)
async def test_a_damaged_list_of_files_is_refused_and_made_again(tmp_path: Path, before: bytes, after: bytes) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    manifest.write_bytes(manifest.read_bytes().replace(before, after))
    names = sorted(path.name for path in manifest.parent.iterdir())
    await refused(settings)
    assert sorted(path.name for path in manifest.parent.iterdir()) == names
    outcome = await salvage.salvage(settings)
    assert outcome.lost_bytes == 0
    assert await keys_in(settings) == ["n"]
    await wait_until_gone(tmp_path, 30)


@pytest.mark.parametrize("sealed", [True, False])
async def test_files_without_a_list_are_never_begun_anew(tmp_path: Path, sealed: bool) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    manifest.unlink()
    if not sealed:
        seal.forget(manifest.parent)
    await refused(settings)
    if sealed:
        await salvage.salvage(settings)
        assert await keys_in(settings) == ["n"]
    else:
        with pytest.raises(DatabaseError, match=r"cannot be salvaged .*manifest.* is missing"):
            await salvage.salvage(settings)
        assert not (manifest.parent.parent / salvage.WORK).exists()
    await wait_until_gone(tmp_path, 30)


async def test_a_store_whose_files_were_deleted_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    for path in manifest.parent.glob("appendonly*"):
        path.unlink()
    await refused(settings)
    (manifest.parent / seal.SEAL).unlink()  # all of it was deleted: nothing speaks of what there was
    assert await keys_in(settings) == []
    await wait_until_gone(tmp_path, 30)


async def test_a_first_start_that_was_cut_short_is_no_damage(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    (incr,) = manifest.parent.glob("*.incr.aof")
    incr.write_bytes(b"")
    manifest.unlink()
    seal.forget(manifest.parent)
    assert await keys_in(settings) == []
    await wait_until_gone(tmp_path, 30)


async def test_an_older_copy_that_was_put_back_is_refused_and_then_taken_as_it_is(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    older = {path: path.read_bytes() for path in manifest.parent.glob("appendonly*")}
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            await connection.write("SET", "m", 1)
            await connection.write("BGREWRITEAOF")
    await wait_until_gone(tmp_path, 30)
    for path in manifest.parent.glob("appendonly*"):
        path.unlink()
    for path, content in older.items():
        path.write_bytes(content)
    await refused(settings)
    outcome = await salvage.salvage(settings)
    assert (outcome.lost_bytes, outcome.doubtful_bytes) == (0, 0)
    assert await keys_in(settings) == ["n"]
    await wait_until_gone(tmp_path, 30)


async def test_other_files_beside_those_of_the_store_do_no_harm(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    (incr,) = manifest.parent.glob("*.incr.aof")
    (manifest.parent / "appendonly.aof.1.incr (copy).aof").write_bytes(incr.read_bytes())
    (manifest.parent / "\udcff.aof").write_bytes(b"x")
    for _ in range(3):
        assert await keys_in(settings) == ["n"]
        await wait_until_gone(tmp_path, 30)


async def test_an_old_seal_says_nothing_of_files_that_came_later(tmp_path: Path) -> None:
    """Two rewrites after it, the store is killed, so that it is never renewed."""
    settings = Settings(data_dir=tmp_path, store_linger=0)
    manifest = await closed_with_one_key(settings)
    sealed = (manifest.parent / seal.SEAL).read_bytes()
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            for number in range(2):
                await connection.write("BGREWRITEAOF")
                while b"aof_rewrite_in_progress:1" in await connection.read("INFO", "persistence"):  # noqa: ASYNC110
                    await trio.sleep(0.02)
                await connection.write("SET", f"m{number}", 1)
            server_of(tmp_path).kill()
    await wait_until_gone(tmp_path, 30)
    assert (manifest.parent / seal.SEAL).read_bytes() == sealed
    assert await keys_in(settings) == ["m0", "m1", "n"]
    await wait_until_gone(tmp_path, 30)


async def test_a_store_whose_lock_was_deleted_is_not_salvaged_while_it_runs(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            await connection.write("SET", "n", 1)
        (tmp_path / "store" / reaper.SERVER).unlink()
        with pytest.raises(ConfigError, match="the store is running"):
            await salvage.salvage(settings)
    await wait_until_gone(tmp_path, 30)


async def test_a_store_whose_last_client_has_just_gone_is_waited_for(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=1)
    async with open_connection(settings) as connection:
        with trio.fail_after(60):
            await connection.write("SET", "n", 1)
    assert server_of(tmp_path).is_running()
    with trio.fail_after(30):
        outcome = await salvage.salvage(settings)
    assert outcome == salvage.Salvage(None, 0, 0), "nothing is damaged"
    assert sorted(path.name for path in (tmp_path / "store").glob("*/")) == [salvage.FILES]
    assert await keys_in(settings) == ["n"]
    await wait_until_gone(tmp_path, 30)
