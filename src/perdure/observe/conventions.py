"""Every name that leaves perdure in a span or a metric, and nothing else.

The names that begin with `gen_ai.` are those of the OpenTelemetry semantic conventions for generative AI, as
of the package opentelemetry-semantic-conventions 0.66b2 (status: development), written out here because that
package moves them. The names that begin with `perdure.` are our own: there are no conventions for runs that
outlive processes.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.66b2"
"""The release of the conventions from which the names below are taken."""

SCOPE: Final = "perdure"
"""The instrumentation scope of every span and metric."""


class Name:
    """What attributes, events of the conventions, and metrics are called."""

    OPERATION: Final = "gen_ai.operation.name"
    INVOKE_AGENT: Final = "invoke_agent"
    CHAT: Final = "chat"
    EXECUTE_TOOL: Final = "execute_tool"

    PROVIDER: Final = "gen_ai.provider.name"
    CONVERSATION: Final = "gen_ai.conversation.id"
    AGENT_NAME: Final = "gen_ai.agent.name"
    AGENT_VERSION: Final = "gen_ai.agent.version"
    REQUEST_MODEL: Final = "gen_ai.request.model"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    TOOL_NAME: Final = "gen_ai.tool.name"
    TOOL_TYPE: Final = "gen_ai.tool.type"
    TOOL_CALL: Final = "gen_ai.tool.call.id"
    TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
    TOOL_RESULT: Final = "gen_ai.tool.call.result"
    INPUT_MESSAGES: Final = "gen_ai.input.messages"
    OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
    TOKEN_TYPE: Final = "gen_ai.token.type"
    ERROR_TYPE: Final = "error.type"

    TOKEN_USAGE: Final = "gen_ai.client.token.usage"
    OPERATION_DURATION: Final = "gen_ai.client.operation.duration"

    TOKEN_BUCKETS: Final = tuple(float(4**power) for power in range(14))
    DURATION_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
    """The bounds that the conventions ask for."""

    # our own

    RUN: Final = "perdure.run.id"
    STATUS: Final = "perdure.run.status"
    STEP: Final = "perdure.step"
    COMMITTED: Final = "perdure.step.committed"
    STEPS: Final = "perdure.steps"
    CALLS: Final = "perdure.calls"
    RESUMES: Final = "perdure.resumes"
    PATH: Final = "perdure.call.path"
    ATTEMPT: Final = "perdure.call.attempt"
    EFFECT: Final = "perdure.call.effect"
    OUTCOME: Final = "perdure.call.outcome"
    STAND_IN: Final = "perdure.call.stand_in"
    CAUSE: Final = "perdure.call.unknown.cause"
    VERDICT: Final = "perdure.call.verdict"
    VERDICT_BY: Final = "perdure.call.verdict.by"
    LINK: Final = "perdure.link"
    COST: Final = "perdure.cost.usd"
    WORKER: Final = "perdure.worker"
    EPOCH: Final = "perdure.epoch"
    WAIT_KIND: Final = "perdure.wait.kind"
    WAIT_NAME: Final = "perdure.wait.name"
    WAIT_ENDED: Final = "perdure.wait.ended"
    APPROVAL: Final = "perdure.approval.id"
    APPROVAL_ENDED: Final = "perdure.approval.ended"
    HOLD: Final = "perdure.hold.reason"
    RELEASED: Final = "perdure.hold.released"
    WHY: Final = "perdure.why"

    COMMIT_DURATION: Final = "perdure.commit.duration"
    CALL_ATTEMPTS: Final = "perdure.call.attempts"
    CALL_RETRIES: Final = "perdure.call.retries"
    CALL_UNKNOWN: Final = "perdure.call.unknown"
    SPEND: Final = "perdure.spend"
    CLAIMS: Final = "perdure.claims"
    LEASES_LOST: Final = "perdure.leases.lost"
    RUNS_ENDED: Final = "perdure.runs.ended"
    RUNS_HELD: Final = "perdure.runs.held"
    RUNS_OPEN: Final = "perdure.runs.open"


_PROVIDERS: Final = (
    (("gpt", "o1", "o3", "o4", "chatgpt", "text-embedding"), "openai"),
    (("claude",), "anthropic"),
    (("gemini", "gemma"), "gcp.gemini"),
    (("mistral", "mixtral", "codestral", "ministral", "magistral"), "mistral_ai"),
    (("deepseek",), "deepseek"),
    (("grok",), "x_ai"),
    (("command",), "cohere"),
)


def provider_of(model: str) -> str:
    """Who is known to offer a model of this name, in the conventions' words; `unknown` if nobody is.

    A part before a slash (`mistral/mistral-large`) names somebody who passes it on, and is left out.
    """
    name = model.rsplit("/", 1)[-1].lower()
    return next((who for starts, who in _PROVIDERS if name.startswith(starts)), "unknown")
