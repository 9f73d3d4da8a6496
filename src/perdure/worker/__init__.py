"""Find work, hold the lease, drive, let go; and tell how it goes.

`worker` claims and drives, `serving` is what one is told, `left` what it could not finish, `health` answers
whoever asks whether it lives.
"""

from perdure.worker.left import Left
from perdure.worker.serving import Serving
from perdure.worker.worker import Worker

__all__ = ["Left", "Serving", "Worker"]
