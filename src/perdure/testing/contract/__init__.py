"""What every store promises, as tests that any store can run.

    from perdure.testing.contract import StoreContract

    class TestMyStore(StoreContract):
        def new_store(self, folder, clock):
            return MyStore(folder / "runs", clock=clock)

Each promise is a plain test method that pytest collects; each gets a fresh store and a clock that stands
still. A store that is gone with its process says `shared = False`, one without transactions of its own
`transactional = False`.
"""

from __future__ import annotations

from perdure.testing.contract.appends import EventPromises
from perdure.testing.contract.compaction import CompactionPromises
from perdure.testing.contract.ends import PlacePromises
from perdure.testing.contract.kept import KeptPromises
from perdure.testing.contract.keys import KeyPromises
from perdure.testing.contract.leases import LeasePromises
from perdure.testing.contract.messages import MessagePromises
from perdure.testing.contract.transactions import TransactionPromises
from perdure.testing.contract.turns import TurnPromises

__all__ = ["StoreContract"]


class StoreContract(
    EventPromises,
    KeyPromises,
    KeptPromises,
    LeasePromises,
    TurnPromises,
    MessagePromises,
    TransactionPromises,
    PlacePromises,
    CompactionPromises,
):
    """All promises. Subclass it, define `new_store`, and let pytest collect it."""
