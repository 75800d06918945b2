"""The lock of a ledger's file: one that only its holder can drop.

SQLite locks the file itself, on POSIX by record locks. These belong to the process, and end when
*any* handle of the file in the process is closed: by a backup, a checksum or an upload in another
thread. So an empty file beside the ledger is locked as well, by ``flock``. Such a lock belongs to
one opening of the file, which no other opening can end. SQLite's own locks stay: versions of this
package that know no other kind are kept out by them, as they were.

- macOS and the BSDs have the same ``flock``.
- On Windows SQLite's locks belong to a handle already, so nothing is added there.
- A lock is inherited by forked processes. It is dropped by name, not by closing the handle, and
  a child closes its copies at once, so that no lock outlives its holder.
- The file is never deleted by us: two processes could then lock two files of one name.
"""

import contextlib
import errno
import os
import time

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_HANDLES = set()  # of this process, open now


def _close_inherited_handles():
    while _HANDLES:
        with contextlib.suppress(OSError):
            os.close(_HANDLES.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_handles)


@contextlib.contextmanager
def locked(path, *, exclusive, seconds):
    """Hold the lock of the file at `path`, which must exist; or raise an OSError.

    Those who only read may share it. They do without where they may not make the lock: in a folder
    that they cannot write to, they cannot harm the file either, and its seal shows a torn read.
    """
    if fcntl is None:
        yield
        return

    try:
        handle = _locked_handle(path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, seconds)
    except OSError as error:
        if exclusive or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        yield
        return

    try:
        yield
    finally:
        if handle in _HANDLES:  # not in a child that was forked meanwhile
            fcntl.flock(handle, fcntl.LOCK_UN)
            _close(handle)


def lock_path(path):
    """Return the path of the lock: one for all links to a ledger."""
    return f"{os.path.realpath(path)}-lock"


def _locked_handle(path, kind, seconds):
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


def _open(path):
    """Return a handle of the lock, which is made if need be, with the permissions of the ledger."""
    if not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    mode = os.stat(path).st_mode & 0o666
    name = lock_path(path)

    try:
        handle = os.open(name, os.O_RDWR)
    except FileNotFoundError:
        try:
            handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            return _open(path)
        with contextlib.suppress(OSError):
            os.fchmod(handle, mode)  # whatever the mask of this process
    except OSError:
        handle = os.open(name, os.O_RDONLY)  # enough for a lock

    _HANDLES.add(handle)
    return handle


def _close(handle):
    _HANDLES.discard(handle)  # first: the number may be another file's right after closing
    os.close(handle)


def _wait_for_lock(handle, kind, deadline):
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


def _is_file_of_that_name(handle, name):
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name))
    except FileNotFoundError:
        return False
