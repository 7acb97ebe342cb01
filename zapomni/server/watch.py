"""What may end a server from outside: a signal, or the death of the process that started it."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import trio

from zapomni.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PARENT_POLL_SECONDS = 1.0

log = get_logger("server")


async def watch_signals(
    stop: Callable[[], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Call `stop` at the first signal; a second one ends the process at once.

    Python delivers signals to the main thread only, so elsewhere there is nothing to watch.
    """
    if threading.current_thread() is not threading.main_thread():
        task_status.started()
        return
    with trio.open_signal_receiver(*ENDING_SIGNALS) as signals:
        for each in ENDING_SIGNALS:
            signal.signal(each, _only_once(signal.getsignal(each)))
        task_status.started()
        async for number in signals:
            log.info("signal_received", signal=signal.Signals(number).name)
            stop()


def _only_once(receiver: Any) -> Callable[[int, FrameType | None], None]:
    """Pass one signal on and leave the next to the system, so that it works even while the loop is held up.

    The receiver puts back what was there before when it closes, and so undoes this, too.
    """

    def receive(number: int, frame: FrameType | None) -> None:
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        receiver(number, frame)

    return receive


async def watch_parent(stop: Callable[[], None]) -> None:
    """Call `stop` when the process that started this one has ended.

    A closed stdin says the same, but not when a sibling has inherited its other end.
    """
    parent = os.getppid()
    if parent == 1:  # nobody's child: started by init, or alone in a container
        return
    await _wait_gone(parent)
    log.info("parent_gone")
    stop()


async def _wait_gone(parent: int) -> None:
    try:
        descriptor = os.pidfd_open(parent)
    except (AttributeError, OSError):  # not Linux, or an old kernel, or gone already
        while os.getppid() == parent:  # noqa: ASYNC110  # nothing tells of it here
            await trio.sleep(PARENT_POLL_SECONDS)
        return
    try:
        if os.getppid() == parent:  # else it had died before, and the number may be another's by now
            await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
