"""Archives of stores: all of their states, in a folder or a bucket."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, NamedTuple, Union

from . import _errors as errors
from . import _vicus

if TYPE_CHECKING:
    import datetime

__all__ = ["Archived", "Restored", "restore"]

#: A file's name.
Files = Union[str, "os.PathLike[str]"]


class Archived(NamedTuple):
    """What an archive has, and what was sent to it."""

    #: The last record in the archive.
    last: int
    #: The records that were sent.
    records: int
    #: The bytes that were sent.
    bytes: int
    #: The objects that were removed, as no state within ``keep`` needs them.
    removed: int


class Restored(NamedTuple):
    """What a restored store has."""

    #: Its last record from the archive.
    last: int
    #: How many quads it has.
    quads: int


def _place(place: Files) -> str:
    checked = errors._checked("place", os.fspath(place))
    assert checked is not None
    return checked


def _seconds(keep: datetime.timedelta | None) -> int | None:
    import datetime

    if keep is None:
        return None
    if not isinstance(keep, datetime.timedelta) or keep < datetime.timedelta(0):
        raise errors.ArgumentError(f"keep is a timedelta of no less than nothing, and not {keep!r}")
    return math.ceil(keep.total_seconds())


def _roots(tls_ca: Files | None) -> str | None:
    return None if tls_ca is None else os.path.abspath(os.fspath(tls_ca))


def restore(
    place: Files,
    path: Files,
    *,
    until: int | datetime.datetime | None = None,
    follower: bool = False,
    tls_ca: Files | None = None,
    timeout: float | None = None,
    cancel: _vicus.Cancel | None = None,
) -> Restored:
    """Makes the store of an archive again (:meth:`Database.archive`, ``vicus backup``, ``vicus serve --archive``) in a
    folder, which has to be missing or without a store: as it was last, with all records up to a number, or with all
    that was in the archive at a time, which has a time zone. With ``follower=True`` it is a copy that goes on by
    ``vicus serve --follow``, else the store's next writer.

    >>> import os, tempfile, vicus
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with vicus.open(os.path.join(folder, "store")) as db:
    ...         _ = db.load(data="<http://e/a> <http://e/b> 1 .")
    ...         _ = db.archive(os.path.join(folder, "archive"))
    ...     vicus.restore(os.path.join(folder, "archive"), os.path.join(folder, "again")).quads
    1
    """
    import datetime

    record = time_ = None
    if isinstance(until, datetime.datetime):
        if until.tzinfo is None:
            raise errors.ArgumentError(f"until={until!r} has no time zone: give it tzinfo=datetime.timezone.utc")
        time_ = max(0, int(until.timestamp()))
    elif until is not None:
        if isinstance(until, bool) or not isinstance(until, int) or not 0 <= until < 1 << 64:
            wanted = "the number of a record or a datetime with a time zone"
            raise errors.ArgumentError(f"until is {wanted}, and not {until!r}")
        record = until
    return Restored(
        *_vicus.restore(
            _place(place), os.fspath(path), record, time_, follower, _roots(tls_ca), timeout, cancel
        )
    )
