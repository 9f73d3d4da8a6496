"""Our names are those of the conventions' package; without OpenTelemetry the refusal says what to install."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from perdure.observe.conventions import VERSION, Name, provider_of


def test_the_names_are_those_of_the_conventions() -> None:
    """Every `gen_ai.` name, and the operations, as the pinned release has them."""
    ours = {
        value for name, value in vars(Name).items() if name.isupper() and str(value).startswith("gen_ai.")
    }
    known = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
    known |= {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
    assert ours <= known, ours - known
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {Name.INVOKE_AGENT, Name.CHAT, Name.EXECUTE_TOOL} <= operations
    assert Name.ERROR_TYPE == error_attributes.ERROR_TYPE


def test_the_pinned_release_is_named() -> None:
    """Whoever updates the package looks at the names again."""
    assert version("opentelemetry-semantic-conventions") == VERSION


def test_providers_by_their_models() -> None:
    """Known names in the conventions' words."""
    known = {one.value for one in gen_ai_attributes.GenAiProviderNameValues}
    names = (
        "gpt-5-mini",
        "o3",
        "claude-opus-4",
        "gemini-3",
        "mistral/mistral-large",
        "deepseek-r2",
        "grok-4",
    )
    assert {provider_of(name) for name in names} <= known
    assert provider_of("my-own") == "unknown"


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
import perdure.observe
for door in (perdure.observe.trace, perdure.observe.measure):
    try:
        door()
    except perdure.observe.traces.ExtraMissing as error:
        print(error.code, error.remedy)
"""


def test_without_opentelemetry_the_refusal_names_what_to_install() -> None:
    """And nothing else of perdure needs it."""
    said = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ['C103 pip install "perdure[otel]"'] * 2
