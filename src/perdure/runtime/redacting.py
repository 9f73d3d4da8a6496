"""Python's logging without the values of secrets: a filter for whoever has handlers of their own."""

from __future__ import annotations

import logging

from perdure.codec.redaction import redacted
from perdure.codec.secret import KNOWN


class Redacting(logging.Filter):
    """A filter for handlers: messages, arguments and tracebacks without known values of secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true; the record is made safe first."""
        if KNOWN.forms:
            message = record.getMessage()
            safe = redacted(message)
            if safe != message:
                record.msg, record.args = safe, ()
            if record.exc_info and not record.exc_text:
                record.exc_text = logging.Formatter().formatException(record.exc_info)
            if record.exc_text:
                record.exc_text = redacted(record.exc_text)
        return True
