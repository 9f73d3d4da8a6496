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


class KeyMissing(SecrecyError):
    """Personal data or a store's payload cannot be opened: there is no key for it here, or it is another one.

    The message names the key or the run. Nothing is guessed and nothing is read without its key.
    """

    code = "K603"
    default_safe = "The stored run is unchanged."
    default_remedy = "give this process the key that the message names; docs/secrets.md tells where keys are"


class PersonalErased(SecrecyError):
    """Personal data was asked for whose key was destroyed by `erase`. Nobody can open it again."""

    code = "K604"
    default_safe = "The run's journal is whole, and verifies."
    default_remedy = "look at it without --reveal: what was erased shows as [erased]"


class EraseRefused(SecrecyError):
    """A run cannot be erased now: it, or a child or a fork of it, has not ended."""

    code = "K605"
    default_safe = "No key was destroyed."
    default_remedy = "end the runs that the message names first: perdure cancel RUN"


class StoreEncrypted(SecrecyError):
    """The store is encrypted, and was opened as one that is not.

    Its address ends with `?encrypt=on` for every process, which has its keys in PERDURE_KEY.
    """

    code = "K606"
    default_safe = "Nothing was written."
    default_remedy = "name it with the switch: --store 'app.db?encrypt=on', or so in PERDURE_STORE"


class StoreNotEncrypted(SecrecyError):
    """The store holds runs in the clear, or is being turned into one that does, and was opened as one that is
    encrypted. Nothing is kept beside them sealed, as if the whole were.
    """

    code = "K607"
    default_safe = "Nothing was written."
    default_remedy = "encrypt it: perdure rotate --encrypt; or name it without ?encrypt=on"


class RotationUnfinished(SecrecyError):
    """A store could not be brought under one key: another process writes under another one all the time, or
    rotates it too. Everything that is there can be read with the keys that PERDURE_KEY has.
    """

    code = "K608"
    default_safe = "Nothing is lost: every value lies under one of the keys that were there before."
    default_remedy = "give every process the new key as the first one of PERDURE_KEY, then: perdure rotate"
