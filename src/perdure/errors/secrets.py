"""Secrets, personal data and the keys that protect them (K…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class SecrecyError(PerdureError):
    """A secret, personal data or a key could not be used, or would have been written down."""


class SecretMissing(SecrecyError):
    """A run uses a secret that this process cannot resolve.

    The journal holds the secret's name only; its value comes from the environment variable of that name, or
    from the resolver that the Runtime was given. The run is held, not failed: nothing was sent.
    """

    code = "K601"
    default_safe = "The call that needs it was not made."
    default_remedy = (
        "set the environment variable that the message names, or Runtime(secrets=...) where it runs; "
        "then perdure retry RUN"
    )


class SecretLeaked(SecrecyError):
    """A value that would be kept contains the value of a secret.

    An argument, a piece of state, a goal or a result of the run's own would put the secret into the journal.
    It is refused and not redacted, because the run would go on with other data than the code made.
    """

    code = "K602"
    default_safe = "The value was not written."
    default_remedy = "keep and pass on the Secret itself, and call reveal() inside the tool that sends it"
