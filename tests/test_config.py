"""Settings: where a value comes from, what is refused, and what is never shown."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED
from zapomni.config import Settings, load
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = {field.name: field for field in attrs.fields(Settings)}
SECRETS = sorted(name for name, field in OPTIONS.items() if field.metadata["secret"])

# The file of a property is written anew for each example; what an earlier one left is gone.
one_file = settings(AT_ANY_SPEED, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def written(directory: Path, values: Mapping[str, Any]) -> Path:
    """Write a settings file; JSON's strings and numbers are TOML's, too."""
    file = directory / "zapomni.toml"
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()]
    file.write_text("".join(lines).replace("\x7f", "\\u007F"), encoding="utf-8")
    return file


def loaded(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    return load(flags, {"ZAPOMNI_CONFIG": "/dev/null"} | dict(environ or {}), file).settings


def variable(name: str) -> str:
    return f"ZAPOMNI_{name.upper()}"


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def values_of(field: attrs.Attribute[Any]) -> st.SearchStrategy[Any]:
    """Values that an option takes, as a settings file has them."""
    kind: Any = field.type
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (arm for arm in get_args(kind) if arm is not NoneType)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    by_kind: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(1, 2**62),
        float: st.floats(1e-6, 36_500) | st.integers(1, 36_500),
        str: st.text(st.characters(codec="utf-8", exclude_characters="\0")),
        Path: st.text(st.characters(codec="utf-8", exclude_characters="\0~")).map(lambda text: f"/{text}"),
    }
    return by_kind[kind]


def is_no_folder(values: Mapping[str, Any]) -> bool:
    """Tell whether the model is a name: where it is a folder, it has tests of its own."""
    return values.get("embedder") != "onnx" or "embedding_model" not in values


VALUES = st.fixed_dictionaries({}, optional={name: values_of(field) for name, field in OPTIONS.items()}).filter(
    is_no_folder
)


def expected(values: Mapping[str, Any]) -> Settings:
    typed: dict[str, Any] = {name: Path(value) if name == "data_dir" else value for name, value in values.items()}
    return Settings(**typed)


@given(values=VALUES)
@one_file
def test_a_settings_file_gives_what_it_says(values: dict[str, Any], tmp_path: Path) -> None:
    assert loaded(file=written(tmp_path, values)) == expected(values)


@AT_ANY_SPEED
@given(values=VALUES)
def test_the_environment_gives_what_it_says(values: dict[str, Any]) -> None:
    """An empty variable says nothing."""
    environ = {variable(name): as_text(value) for name, value in values.items()}
    assert loaded(environ=environ) == expected({name: value for name, value in values.items() if value != ""})


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_empty_variable_is_not_set(name: str) -> None:
    outcome = load(environ={"ZAPOMNI_CONFIG": "/dev/null", variable(name): ""})
    assert outcome.settings == Settings()
    assert outcome.origins[name] == "default"


def test_every_number_with_a_fraction_has_an_end() -> None:
    for name, field in OPTIONS.items():
        if field.type is float:
            for endless in ("inf", "nan"):
                with pytest.raises(ConfigError, match=name):
                    loaded({name: endless})


@AT_ANY_SPEED
@given(values=VALUES)
def test_flags_give_what_they_say(values: dict[str, Any]) -> None:
    assert loaded(flags=values) == expected(values)


@given(data=st.data(), name=st.sampled_from(sorted(OPTIONS)))
@one_file
def test_flags_go_before_the_environment_and_that_before_the_file(
    data: st.DataObject, name: str, tmp_path: Path
) -> None:
    """Each source may be silent; of those that speak, the nearest to the caller is heard."""
    in_file, in_environ, in_flag = (data.draw(st.none() | values_of(OPTIONS[name])) for _ in range(3))
    file = written(tmp_path, {} if in_file is None else {name: in_file})
    environ = {} if in_environ is None else {variable(name): as_text(in_environ)}
    in_environ = None if in_environ == "" else in_environ  # an empty variable says nothing
    outcome = load({name: in_flag}, environ, file)
    spoken = [
        (value, origin)
        for value, origin in ((in_flag, "flag"), (in_environ, "environment"), (in_file, f"file {file}"))
        if value is not None
    ]
    if spoken:
        value, origin = spoken[0]
        assert getattr(outcome.settings, name) == getattr(expected({name: value}), name)
        assert outcome.origins[name] == origin
    else:
        assert outcome.settings == Settings()
        assert outcome.origins[name] == "default"
    assert {outcome.origins[other] for other in OPTIONS if other != name} == {"default"}


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("1", True),
        ("true", True),
        ("YES", True),
        ("on", True),
        ("0", False),
        ("False", False),
        ("no", False),
        ("off", False),
    ],
)
def test_a_switch_has_several_words(word: str, meaning: bool) -> None:
    assert loaded(environ={"ZAPOMNI_READ_ONLY": word}).read_only is meaning


def test_the_home_directory_may_be_written_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anybody")
    assert loaded(environ={"ZAPOMNI_DATA_DIR": "~/memories"}).data_dir == Path("/home/anybody/memories")


def test_a_relative_path_in_the_file_is_one_place_whatever_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.toml").symlink_to("elsewhere/zapomni.toml")
    written(tmp_path / "elsewhere", {"data_dir": "memo", "embedder": "onnx", "embedding_model": "../models/small"})
    monkeypatch.chdir(tmp_path)
    for name, folder in (("elsewhere/zapomni.toml", tmp_path / "elsewhere"), ("link.toml", tmp_path)):
        for file in (Path(name), tmp_path / name, Path("elsewhere/..", name)):
            found = loaded(file=file)
            assert found.data_dir == folder / "memo"
            assert found.embedding_model == str(folder / "../models/small")
        assert loaded(environ={"ZAPOMNI_CONFIG": str(tmp_path / name)}).data_dir == folder / "memo"


def test_a_relative_path_of_a_flag_counts_from_where_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert loaded({"data_dir": Path("memo")}).data_dir == tmp_path / "memo"
    model = loaded({"embedder": "onnx"}, file=written(tmp_path, {"embedding_model": "small"})).embedding_model
    assert model == str(tmp_path / "small"), "the place that counts is that of the path, not that of the embedder"


@pytest.mark.parametrize(("name", "rest"), [("data_dir", {}), ("embedding_model", {"ZAPOMNI_EMBEDDER": "onnx"})])
def test_a_relative_path_in_the_environment_is_refused(name: str, rest: dict[str, str]) -> None:
    words = rf"{variable(name)} \(environment\) must be an absolute path, .* it is 'memo'"
    with pytest.raises(ConfigError, match=words):
        loaded(environ={variable(name): "memo", **rest})


def test_the_name_of_a_model_is_no_path(tmp_path: Path) -> None:
    for environ in ({"ZAPOMNI_EMBEDDER": "ollama"}, {}):
        assert loaded(environ={**environ, "ZAPOMNI_EMBEDDING_MODEL": "bge-m3"}).embedding_model == "bge-m3"
    assert loaded(file=written(tmp_path, {"embedder": "ollama", "embedding_model": "a/b"})).embedding_model == "a/b"


@pytest.mark.parametrize("values", [{"data_dir": "~nobody!/x"}, {"embedder": "onnx", "embedding_model": "~nobody!/x"}])
def test_the_home_of_nobody_is_no_path(values: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a path; it is '~nobody!/x'"):
        loaded(file=written(tmp_path, values))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("read_only", "maybe", "must be true or false; it is 'maybe'"),
        ("max_concurrent", "many", "must be a whole number; it is 'many'"),
        ("max_concurrent", "1.5", "must be a whole number; it is '1.5'"),
        ("max_concurrent", "0", "max_concurrent must be greater than 0, not 0"),
        ("request_timeout", "soon", "must be a number; it is 'soon'"),
        ("request_timeout", "-1", "request_timeout must be greater than 0, not -1.0"),
        ("request_timeout", "nan", "request_timeout must be greater than 0, not nan"),
        ("request_timeout", "inf", "request_timeout must be finite, not inf"),
        ("store_linger", "inf", "store_linger must be finite, not inf"),
        ("store_linger", "nan", "store_linger must be 0 or greater, not nan"),
        ("query_timeout", "1e12", "query_timeout must be 1,000,000 at the most, not 1000000000000.0"),
        ("retention_days", "inf", "retention_days must be finite, not inf"),
        ("retention_days", "3000000", "retention_days must be 36,500 at the most, not 3000000.0"),
        ("shutdown_grace", "-0.5", "shutdown_grace must be 0 or greater, not -0.5"),
        ("log_level", "loud", "must be one of debug, info, warning, error; it is 'loud'"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_should_be(name: str, value: str, words: str) -> None:
    for flags, environ in (({name: value}, {}), ({}, {variable(name): value})):
        with pytest.raises(ConfigError) as caught:
            loaded(flags, environ)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_concurrent", True),
        ("max_concurrent", 1.5),
        ("max_concurrent", [1]),
        ("request_timeout", False),
        ("workspace", 5),
        ("data_dir", []),
        ("data_dir", ""),
        ("read_only", "perhaps"),
        ("log_level", 1),
        ("log_level", ["info"]),
    ],
)
def test_a_value_of_a_wrong_type_in_the_file_is_refused(name: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=name):
        loaded(file=written(tmp_path, {name: value}))


@pytest.mark.parametrize("digits", ["9" * 400, "-" + "9" * 400])
@pytest.mark.parametrize("name", ["request_timeout", "max_concurrent"])
def test_a_number_beyond_all_measure_is_no_crash(name: str, digits: str, tmp_path: Path) -> None:
    file = tmp_path / "zapomni.toml"
    file.write_text(f"{name} = {digits}\n")
    for sources in ({"file": file}, {"environ": {variable(name): digits}}):
        taken: Any = 1
        with contextlib.suppress(ConfigError):  # being refused is as right as being taken
            taken = getattr(loaded(**sources), name)
        assert taken > 0


def test_a_misspelt_setting_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown setting request_timout \(file .*\); did you mean request_timeout\?"
    ):
        loaded(file=written(tmp_path, {"request_timout": 5}))
    with pytest.raises(
        ConfigError, match=r"unknown setting ZAPOMNI_LOGLEVEL \(environment\); did you mean log_level\?"
    ):
        loaded(environ={"ZAPOMNI_LOGLEVEL": "info"})
    with pytest.raises(ConfigError, match=r"unknown setting --datadir \(flag\); did you mean data_dir\?"):
        loaded(flags={"datadir": "/"})


@AT_ANY_SPEED
@given(name=st.sampled_from(sorted(OPTIONS)).filter(lambda name: len(name) > 5), data=st.data())
def test_one_wrong_letter_is_guessed_right(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(name) - 1))
    misspelt = name[:place] + "j" + name[place + 1 :]
    with pytest.raises(ConfigError, match=f"did you mean {name}\\?"):
        loaded(environ={variable(misspelt): "1"})


def test_other_variables_are_not_ours() -> None:
    assert loaded(environ={"HOME": "/", "ZAPOMNIX": "1", "MY_ZAPOMNI_THING": "1"}) == Settings()


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", ["12345678", "123.45678", '["hunter2"]', '{ hunter2 = "hunter2" }', "true"])
def test_a_secret_is_never_shown(name: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "zapomni.toml"
    file.write_text(f"{name} = {value}\n")
    with pytest.raises(ConfigError) as caught:
        loaded(file=file)
    assert name in str(caught.value)
    assert not [each for each in ("hunter2", "12345678", "123.45678", "rue") if each in str(caught.value)]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_not_in_what_settings_look_like(name: str) -> None:
    assert "hunter2" not in repr(load({name: "hunter2"}, {"ZAPOMNI_CONFIG": "/dev/null"}))


@AT_ANY_SPEED
@given(secret=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12))
@pytest.mark.parametrize("name", SECRETS)
def test_a_mistake_elsewhere_does_not_show_the_secrets(name: str, secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(environ={variable(name): secret, "ZAPOMNI_MAX_CONCURRENT": "many"})
    assert secret not in str(caught.value)


def test_the_settings_that_hold_credentials_are_secret() -> None:
    assert SECRETS == ["embedding_api_key", "embedding_url", "falkordb_url"]


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.toml"
    with pytest.raises(ConfigError, match=r"nothing\.toml does not exist"):
        load(file=missing, environ={})
    with pytest.raises(ConfigError, match=r"nothing\.toml does not exist"):
        load(environ={"ZAPOMNI_CONFIG": str(missing)})


def test_the_usual_file_need_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load(environ={}).settings == Settings()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"log_level = ", "is not valid TOML"), (b"\xff\xfe", "cannot be read"), (b"a = 1\na = 2", "is not valid TOML")],
)
def test_a_broken_file_is_named(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "zapomni.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        loaded(file=file)
    assert str(file) in str(caught.value)


def test_a_directory_is_no_settings_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        loaded(file=tmp_path)


def test_every_option_is_explained_and_frozen() -> None:
    assert all(field.metadata["help"] for field in OPTIONS.values())
    options: Any = Settings()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        options.workspace = "other"
