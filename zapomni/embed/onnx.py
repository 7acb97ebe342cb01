"""Any sentence-embedding model from a local folder, run by onnxruntime.

The folder holds ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json``, as models are usually published.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from zapomni.embed.known import identity
from zapomni.embed.vectors import unit
from zapomni.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zapomni.embed.known import Habits

BATCH = 16  # windows that are run at once, and between which a call can be cancelled
THREADS = 2
WINDOW = 512  # tokens, where neither the tokenizer nor the model says how many
MULTILINGUAL_VOCABULARY = 60_000  # English ones have about 30,000 pieces, those of many languages over 100,000


class OnnxModel:
    """A model in memory: texts in, unit vectors out. Made and used in threads."""

    def __init__(self, folder: Path, pooling: str | None) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EmbeddingError("the onnx embedder is not installed: pip install 'zapomni[onnx]'") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._tokenizer = Tokenizer.from_str(_tokenizer_json(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_window(folder, self._tokenizer.truncation))
        with _own_errors():
            self._session = onnxruntime.InferenceSession(
                str(_model_file(folder)), options, providers=["CPUExecutionProvider"]
            )
        self._inputs = [given.name for given in self._session.get_inputs()]
        outputs = [given.name for given in self._session.get_outputs()]
        self._output = next((name for name in outputs if "sentence" in name), outputs[0])
        self._pooling = pooling or _pooling(folder)
        self.multilingual = self._tokenizer.get_vocab_size() >= MULTILINGUAL_VOCABULARY
        self.dimension = self.run([self._tokenizer.encode("ready")]).shape[1]

    def windows(self, texts: Sequence[str]) -> tuple[list[Any], list[int]]:
        """Return every text as one or more windows of tokens, and for each window the text that it is of."""
        windows: list[Any] = []
        owners: list[int] = []
        for number, encoded in enumerate(self._tokenizer.encode_batch(list(texts))):
            for window in (encoded, *encoded.overflowing):
                windows.append(window)
                owners.append(number)
        return windows, owners

    def run(self, windows: Sequence[Any]) -> NDArray[np.float32]:
        """Return a row for each window, not yet of length 1."""
        import numpy as np

        longest = max(len(window.ids) for window in windows)
        ids = np.zeros((len(windows), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window.ids)] = window.ids
            mask[row, : len(window.ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        with _own_errors():
            (output,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        vectors = np.asarray(output, np.float32)
        if vectors.ndim == 2:
            return vectors
        if self._pooling == "cls":
            return vectors[:, 0]
        # Multiplying by the mask instead would spread whatever stands beside a text: 0 times infinity is no number.
        read = np.where(mask[:, :, np.newaxis] == 1, vectors, np.float32(0.0))
        with np.errstate(invalid="ignore"):
            return unit(read.sum(axis=1, dtype=np.float64))


class OnnxEmbedder:
    """A model in a folder behind the `Embedder` protocol."""

    weight = 0.6

    def __init__(self, folder: Path, habits: Habits, pooling: str | None) -> None:
        size = _model_file(folder).stat().st_size  # tells models apart that were put into the same folder
        self.name = identity(f"onnx/{folder.name}", habits, size, pooling)
        self.dimension = 0
        self.multilingual = False
        self._folder = folder
        self._habits = habits
        self._pooling = pooling
        self._model: OnnxModel | None = None
        self._loading = trio.Lock()
        self._threads = trio.CapacityLimiter(1)  # the runtime has threads of its own

    async def ready(self) -> None:
        await self._loaded()

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self._embed([self._habits.document_prefix + text for text in texts])

    async def embed_query(self, text: str, *, importance: Mapping[str, float] | None = None) -> NDArray[np.float32]:
        return (await self._embed([self._habits.query_prefix + text])).reshape(-1)

    async def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows; a text longer than the model's window becomes the mean of its windows."""
        import numpy as np

        model = await self._loaded()
        windows, owners = await self._in_thread(model.windows, texts)
        rows = np.zeros((len(texts), model.dimension), np.float32)
        by_length = sorted(range(len(windows)), key=lambda number: len(windows[number].ids))
        for start in range(0, len(by_length), BATCH):
            batch = by_length[start : start + BATCH]
            vectors = unit(await self._in_thread(model.run, [windows[number] for number in batch]))
            for number, vector in zip(batch, vectors, strict=True):
                rows[owners[number]] += vector * len(windows[number].ids)
        return unit(rows)

    async def _in_thread[*Ts, T](self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        try:
            return await trio.to_thread.run_sync(function, *arguments, limiter=self._threads)
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise EmbeddingError(f"the model in {self._folder} cannot be run: {error}") from error

    async def _loaded(self) -> OnnxModel:
        async with self._loading:
            if self._model is None:
                model = await self._in_thread(OnnxModel, self._folder, self._pooling)
                self.dimension, self.multilingual, self._model = model.dimension, model.multilingual, model
            return self._model


@contextmanager
def _own_errors() -> Iterator[None]:
    """Turn the runtime's errors into ours; they have no base class, so they are gathered from its module."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    try:
        yield
    except tuple(kinds) as error:
        raise EmbeddingError(f"onnxruntime cannot run the model: {error}") from error


def find_model(folder: str) -> Path:
    """Return the model's folder; raises `ConfigError` where there is none."""
    path = Path(folder).expanduser().resolve()
    for file in (_model_file(path), path / "tokenizer.json"):
        if not file.is_file():
            raise ConfigError(
                f"embedding_model must be a folder with model.onnx and tokenizer.json; there is no {file}"
            )
    return path


def _model_file(folder: Path) -> Path:
    direct = folder / "model.onnx"
    return direct if direct.exists() else folder / "onnx" / "model.onnx"


def _tokenizer_json(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if not json.loads(text).get("model"):
        raise EmbeddingError(f"{file} is no tokenizer of the Hugging Face kind")
    return text


def _window(folder: Path, truncation: Mapping[str, Any] | None) -> int:
    limits = [WINDOW]
    if truncation:
        limits = [int(truncation["max_length"])]
    config = folder / "config.json"
    if config.exists():
        positions = json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings")
        if isinstance(positions, int):
            limits.append(positions)
    return min(limits)


def _pooling(folder: Path) -> str:
    config = folder / "1_Pooling" / "config.json"
    if config.exists() and json.loads(config.read_text(encoding="utf-8")).get("pooling_mode_cls_token"):
        return "cls"
    return "mean"
