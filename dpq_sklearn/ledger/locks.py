"""The lock of a ledger's file: only its holder can drop it.

SQLite locks the file itself, on POSIX by record locks. These belong to the process, and end when
*any* handle of the file in the process is closed: by a backup, a checksum or an upload in another
thread. So a second file next to the ledger is locked as well, by ``flock``. Such a lock belongs to
one opening of the file, which no other opening can end. SQLite's own locks stay: they keep out
versions of this package that know no other lock.

- macOS and the BSDs have the same ``flock``.
- On Windows, SQLite's locks belong to a handle already, so nothing is added there.
- A forked process inherits a lock. It is dropped by name, not by closing the handle, and a child
  closes its copies at once, so that no lock outlives its holder.
- This package never deletes the file: two processes could then lock two files of one name.
"""

import contextlib
import errno
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Held while this process has a connection to a ledger's file open. A fork waits for it: the child
# would inherit SQLite's record of the locks that another thread holds, and could never spend.
NO_FORK = threading.RLock()

_HANDLES: set[int] = set()  # of this process, open now
_SIZE_OF_TEXT = 256


def _let_the_child_go_on() -> None:
    NO_FORK.release()
    while _HANDLES:
        with contextlib.suppress(OSError):
            os.close(_HANDLES.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=NO_FORK.acquire,
        after_in_parent=NO_FORK.release,
        after_in_child=_let_the_child_go_on,
    )


@dataclass(frozen=True)
class LockFile:
    """A locked file, which also holds a short text."""

    handle: int

    def read(self) -> str:
        """Return the text; an empty text if none was ever written."""
        return os.pread(self.handle, 2 * _SIZE_OF_TEXT, 0).decode(errors="replace").strip()

    def write(self, text: str) -> None:
        """Replace the text, durably. It needs no more room on the disk than the previous text."""
        if os.fstat(self.handle).st_size < _SIZE_OF_TEXT:
            self._write_bytes(b"")  # a full disk may cut off blanks only
        self._write_bytes(text.encode())
        os.fsync(self.handle)

    def _write_bytes(self, text: bytes) -> None:
        if os.pwrite(self.handle, text.ljust(_SIZE_OF_TEXT), 0) != _SIZE_OF_TEXT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def locked(
    path: str, *, exclusive: bool, seconds: float, is_new: bool = False
) -> Iterator[LockFile | None]:
    """Hold the lock of the file at `path`, which must exist unless it `is_new`; or raise OSError.

    Readers share the lock. If they may not create it, they read without it: in a folder that they
    cannot write to, they cannot harm the file either, and its hashes show a torn read.
    """
    if fcntl is None:
        yield None
        return

    if not is_new and not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        handle = _locked_handle(path, kind, seconds)
    except OSError as error:
        if exclusive or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        yield None
        return

    try:
        yield LockFile(handle)
    finally:
        if handle in _HANDLES:  # not in a child that was forked meanwhile
            fcntl.flock(handle, fcntl.LOCK_UN)
            _close(handle)


def lock_path(path: str) -> str:
    """Return the path of the lock, which all symbolic links to a ledger share."""
    return f"{os.path.realpath(path)}-lock"


def _locked_handle(path: str, kind: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds

    while True:
        handle = _open(path)
        try:
            _wait_for_lock(handle, kind, deadline)
            if _is_file_of_that_name(handle, lock_path(path)):
                return handle
        except BaseException:
            _close(handle)
            raise
        _close(handle)  # somebody deleted the lock that we waited for


def _open(path: str) -> int:
    """Return a handle of the lock, which is created with the permissions of the ledger."""
    name = lock_path(path)
    if os.path.islink(name):
        raise OSError(errno.ELOOP, "the lock must be a file, not a symbolic link", name)

    try:
        handle = os.open(name, os.O_RDWR)
    except FileNotFoundError:
        handle = _created(path, name)
    except OSError:
        handle = os.open(name, os.O_RDONLY)  # enough for a reader's lock

    _HANDLES.add(handle)
    return handle


def _created(path: str, name: str) -> int:
    mode = os.stat(path).st_mode & 0o666 if os.path.exists(path) else None
    handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o666 if mode is None else mode)
    if mode is not None:
        with contextlib.suppress(OSError):
            os.fchmod(handle, mode)  # independent of the umask of this process
    return handle


def _close(handle: int) -> None:
    _HANDLES.discard(handle)  # first, because the number can be reused right after closing
    os.close(handle)


def _wait_for_lock(handle: int, kind: int, deadline: float) -> None:
    pause = 0.0005

    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("it is locked by another process or thread") from None

        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _is_file_of_that_name(handle: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name))
    except FileNotFoundError:
        return False
