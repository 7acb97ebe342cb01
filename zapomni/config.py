"""Settings: one line per option, and one rule for where a value comes from.

Defaults give way to the TOML file, the file to ``ZAPOMNI_*`` in the environment, the environment to flags.
A key that no option has is an error wherever it stands: a misspelt setting must not be ignored in silence.

A path means one place, whatever folder a command runs in: a memory must not be another one in every folder. So a
relative one counts from the folder of the file that it stands in, or, as a flag, from where it is typed; in the
environment, which many folders share, it is an error.
"""

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import attrs
import platformdirs

from zapomni.errors import ConfigError

ENV_PREFIX = "ZAPOMNI_"
CONFIG_VARIABLE = "ZAPOMNI_CONFIG"  # names the TOML file, so it is no option itself
ENVIRONMENT, FLAG = "environment", "flag"  # where a value came from, besides a file
_SWITCH = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


type Check = Callable[[object, "attrs.Attribute[Any]", Any], None]


def _positive(_: object, field: "attrs.Attribute[Any]", value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{field.name} must be greater than 0, not {value}")
    _finite(field, value)


def _not_negative(_: object, field: "attrs.Attribute[Any]", value: float) -> None:
    if not value >= 0:
        raise ConfigError(f"{field.name} must be 0 or greater, not {value}")
    _finite(field, value)


def _finite(field: "attrs.Attribute[Any]", value: float) -> None:
    if value == math.inf:
        raise ConfigError(f"{field.name} must be finite, not {value}")


def _at_most(most: int) -> Check:
    def check(_: object, field: "attrs.Attribute[Any]", value: float) -> None:
        if value > most:
            raise ConfigError(f"{field.name} must be {most:,} at the most, not {value}")

    return check


def _data_dir() -> Path:
    return Path(platformdirs.user_data_dir("zapomni", appauthor=False))


def config_file() -> Path:
    """Where the TOML file is looked for when nobody names one."""
    return Path(platformdirs.user_config_dir("zapomni", appauthor=False)) / "config.toml"


def _option(
    default: Any,
    help: str,  # the word that every parser of arguments uses
    *,
    check: Check | list[Check] | None = None,
    secret: bool = False,
) -> Any:
    metadata = {"help": help, "secret": secret}
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # attrs types Factory as a function
        return attrs.field(factory=default.factory, validator=check, repr=not secret, metadata=metadata)
    return attrs.field(default=default, validator=check, repr=not secret, metadata=metadata)


@attrs.frozen(kw_only=True)
class Settings:
    """Every option, with its default and its meaning."""

    data_dir: Path = _option(attrs.Factory(_data_dir), "where memories are kept")
    workspace: str = _option("default", "the workspace that calls use when they name none")
    read_only: bool = _option(False, "offer no tool that writes")
    tools: Literal["all", "core"] = _option("all", "which tools to offer: all, or the core that matters most")
    request_timeout: float = _option(60.0, "seconds that one call may take", check=_positive)
    max_request_bytes: int = _option(64 * 1024 * 1024, "the longest message that is read", check=_positive)
    max_concurrent: int = _option(16, "calls that run at the same time; others wait", check=_positive)
    shutdown_grace: float = _option(1.5, "seconds that running calls get at the end", check=_not_negative)
    log_level: Literal["debug", "info", "warning", "error"] = _option("info", "the least that is logged")
    falkordb_url: str | None = _option(None, "a FalkorDB server instead of the embedded one", secret=True)
    read_from_replicas: bool = _option(False, "send reads to replicas of the FalkorDB server")
    store_linger: float = _option(5.0, "seconds the store outlives its last client", check=_not_negative)
    # Sockets count a wait in milliseconds of 32 bits, and dates end with the year 9999.
    query_timeout: float = _option(
        30.0, "seconds that one database query may take, 1,000,000 at the most", check=[_positive, _at_most(1_000_000)]
    )
    pool_size: int = _option(8, "connections to the database, at the most", check=_positive)
    retention_days: float = _option(
        30.0, "days that deleted memories can be restored, 36,500 at the most", check=[_not_negative, _at_most(36_500)]
    )
    embedder: Literal["bundled", "onnx", "ollama", "openai"] = _option("bundled", "what turns text into vectors")
    embedding_model: str | None = _option(None, "the model's name, or its folder for onnx")
    embedding_url: str | None = _option(None, "the embedding server's address", secret=True)
    embedding_api_key: str | None = _option(None, "the embedding server's key", secret=True)
    embedding_timeout: float = _option(30.0, "seconds that one embedding request may take", check=_positive)
    embedding_query_prefix: str | None = _option(None, "put before every query; known models have their own")
    embedding_document_prefix: str | None = _option(None, "put before every passage; known models have their own")
    embedding_pooling: Literal["mean", "cls"] | None = _option(None, "how onnx token vectors become one")
    defer_embedding: bool = _option(False, "store at once and embed later when the embedder is down")
    chunk_tokens: int = _option(192, "the size that passages are packed to", check=_positive)
    chunk_overlap: int = _option(24, "tokens that neighbouring passages share", check=_not_negative)

    @classmethod
    def option(cls, name: str) -> "attrs.Attribute[Any]":
        """Return the definition of one option."""
        return cast("attrs.Attribute[Any]", getattr(attrs.fields(cls), name))


@attrs.frozen
class Loaded:
    """Settings, and for each option the place that its value came from."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Gather the settings; flags that are None were not given, nor were empty variables. Raises `ConfigError`."""
    environ = os.environ if environ is None else environ
    named = file or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    options = [field.name for field in attrs.fields(Settings)]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(options, "default")

    def take(name: str, raw: object, key: str, origin: str) -> None:
        if name not in origins:
            raise ConfigError(f"unknown setting {key} ({origin}){_did_you_mean(name, options)}")
        values[name] = _convert(raw, Settings.option(name), f"{key} ({origin})")
        origins[name] = origin

    for key, raw in _read_toml(named).items():
        take(key, raw, key, f"file {named or config_file()}")
    for key, text in environ.items():
        # Whoever writes NAME= means to unset it, and would not look for the memories in the current directory.
        if text and key.startswith(ENV_PREFIX) and key != CONFIG_VARIABLE:
            take(key.removeprefix(ENV_PREFIX).lower(), text, key, ENVIRONMENT)
    for key, raw in (flags or {}).items():
        if raw is not None:
            take(key, raw, "--" + key.replace("_", "-"), FLAG)
    for name in _paths(values):
        path = _placed(name, values[name], origins[name], named or config_file())
        values[name] = type(values[name])(path)  # a model's folder stays text, as its option is
    return Loaded(Settings(**values), origins)


def value_of(name: str, text: str) -> Any:
    """Read one option's value from its text, and check it. Raises `ConfigError`."""
    value: Any = _convert(text, Settings.option(name), name)
    Settings(**{name: value})
    return value


def _paths(values: Mapping[str, Any]) -> list[str]:
    """Return the options that are given as paths; what names a model is a folder only where models are in folders."""
    folders = ["embedding_model"] if values.get("embedder") == "onnx" else []
    return [name for name in ("data_dir", *folders) if values.get(name)]


def _placed(name: str, value: object, origin: str, file: Path) -> Path:
    try:
        path = Path(str(value)).expanduser()
    except RuntimeError as error:  # a home of nobody
        raise ConfigError(f"{name} ({origin}) must be a path; it is {str(value)!r}") from error
    if path.is_absolute():
        return path
    if origin == ENVIRONMENT:
        raise ConfigError(
            f"{ENV_PREFIX}{name.upper()} ({origin}) must be an absolute path, since a relative one would be another "
            f"in every folder; it is {str(value)!r}"
        )
    return (Path.cwd() if origin == FLAG else file.parent.resolve()) / path


def _read_toml(named: Path | None) -> dict[str, Any]:
    path = named or config_file()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if named is None:
            return {}
        raise ConfigError(f"the settings file {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the settings file {path} is not valid TOML: {error}") from error


def _convert(raw: object, field: "attrs.Attribute[Any]", where: str) -> object:
    """Turn a TOML value, or the text of a variable or flag, into the option's type."""
    wanted = _plain_type(field.type)
    choices = get_args(wanted) if get_origin(wanted) is Literal else ()
    if choices:
        if raw in choices:
            return raw
        raise ConfigError(f"{where} must be one of {', '.join(choices)}; it is {raw!r}")
    try:
        if wanted is bool:
            return raw if isinstance(raw, bool) else _SWITCH[str(raw).lower()]
        if isinstance(raw, bool) or not isinstance(raw, str | int | float | Path):
            raise ValueError
        if wanted is Path:
            if not str(raw):
                raise ValueError
            return Path(str(raw)).expanduser()
        if not isinstance(raw, str | wanted) and wanted is not float:
            raise ValueError
        return wanted(raw)
    except (ValueError, KeyError, OverflowError, RuntimeError) as error:  # the last for the home of nobody
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(wanted, "a path")
        shown = "" if field.metadata["secret"] else f"; it is {raw!r}"
        raise ConfigError(f"{where} must be {kind}{shown}") from error


def _plain_type(wanted: Any) -> Any:
    if get_origin(wanted) in (Union, UnionType):
        (wanted,) = (arm for arm in get_args(wanted) if arm is not NoneType)
    return wanted


def _did_you_mean(name: str, options: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, options, n=1)
    return f"; did you mean {close[0]}?" if close else ""
