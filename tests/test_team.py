"""Errors of nurseries without groups around them."""

from __future__ import annotations

import pytest
import trio

from zapomni.errors import ValidationError
from zapomni.team import innermost, open_team


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise ValidationError("wrong")


async def test_a_team_raises_what_its_task_raised_and_ends_the_others() -> None:
    async def work(*, inside: bool) -> None:
        async with open_team() as team:
            team.start_soon(trio.sleep_forever)
            if inside:
                await fail()
            team.start_soon(fail)
            await trio.sleep_forever()

    with trio.fail_after(5):
        for inside in (True, False):
            with pytest.raises(ValidationError, match="wrong"):
                await work(inside=inside)


async def test_a_cancelled_team_is_cancelled_and_no_error() -> None:
    with trio.fail_after(5):
        with trio.CancelScope() as scope:
            async with open_team() as team:
                team.start_soon(trio.sleep_forever)
                scope.cancel()
        assert scope.cancelled_caught


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
async def test_whoever_asks_the_program_to_end_is_heard_before_an_ordinary_error(stop: type[BaseException]) -> None:
    async def end_by(error: BaseException) -> None:
        raise error

    async def work(*errors: BaseException) -> None:
        async with open_team() as team:
            for error in errors:
                team.start_soon(end_by, error)

    with trio.fail_after(5):
        for errors in ((ValidationError("wrong"), stop()), (stop(), ValidationError("wrong"))):
            with pytest.raises(stop):
                await work(*errors)


def test_an_error_that_is_in_no_group_is_itself() -> None:
    error = ValidationError("wrong")
    assert innermost(error) is error
    assert innermost(BaseExceptionGroup("", [ExceptionGroup("", [error]), SystemExit()])).__class__ is SystemExit
