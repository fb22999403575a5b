"""Writing a file completely or not at all: what is checked before, locks, and names that appear at
the end only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path

from ..errors import ReplicaWarning, StoreError

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None

Name = str | os.PathLike[str]

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""What the system says where nothing can be written."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def check_target(path: Name, force: bool = False) -> None:
    """Raise StoreError if ``path`` could not be written; to be called before a long computation."""
    try:
        problem = _refusal(path, Path(os.path.realpath(path)), force)
    except (OSError, ValueError) as error:  # a name too long, a NUL character
        raise StoreError(
            f"{path!r} cannot be the name of a file ({reason(error)}): choose another name"
        ) from error
    if problem:
        raise StoreError(problem)


def _refusal(path: Name, target: Path, force: bool) -> str:
    """Why ``target``, which the user calls ``path``, is not written; empty if it is."""
    if target.is_dir():
        return f"{path} is a folder: give the name of a file"
    if not target.parent.is_dir():
        return f"the folder {target.parent} does not exist: create it or choose another one"
    if target.exists() and not target.is_file():
        return f"{path} is not an ordinary file: choose another name"
    if target.exists() and not force:
        return f"{path} exists: choose another name or pass --force"
    if not os.access(target.parent, os.W_OK | os.X_OK):
        return f"no permission to write in the folder {target.parent}: choose another one"
    return ""


def write_bytes(path: Name, content: bytes, force: bool) -> None:
    """Write a file, completely or not at all, by who has checked ``path``."""
    with _named(path):
        _write(Path(os.path.realpath(path)), content, force)


def write_text(path: Name, content: str, *, force: bool = False) -> None:
    """Write a text file, completely or not at all."""
    check_target(path, force)
    write_bytes(path, content.encode(), force)


@contextlib.contextmanager
def locked(path: Name) -> Iterator[None]:
    """Keep ``path`` from other writers, on this machine or on others that share the folder.

    The lock is the system's own (``flock``) on a hidden file beside ``path``: it ends with this
    process, however that ends.
    """
    if fcntl is None:
        warnings.warn(
            f"this system has no flock: make sure that no second run writes {path}",
            ReplicaWarning,
            stacklevel=3,
        )
        yield
        return
    target = Path(os.path.realpath(path))
    with _named(path):
        handle = _lock(path, os.O_RDWR | os.O_CREAT)
    try:
        with _named(path):
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
            # What a run left that was killed while it wrote.
            for leftover in target.parent.glob(f"{_beside(target)}-*.tmp"):
                leftover.unlink(missing_ok=True)
        yield
    finally:
        _lock_file(target).unlink(missing_ok=True)  # still locked: nobody else has it
        os.close(handle)


def check_unlocked(path: Name) -> None:
    """Raise StoreError if another run holds the lock on ``path``."""
    # Without a lock file nobody else is at it.
    with _named(path), contextlib.suppress(FileNotFoundError):
        os.close(_lock(path, os.O_RDWR))


def lock_for_reading(handle: int) -> None:
    """Raise BlockingIOError if another program has the file open for writing; the lock ends with
    the handle.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _lock(path: Name, flags: int) -> int:
    """A handle on the lock file of ``path``, locked; FileNotFoundError if there is none and
    ``flags`` do not make it.
    """
    file = _lock_file(Path(os.path.realpath(path)))
    while True:
        handle = os.open(file, flags, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
            os.close(handle)
            raise StoreError(
                f"{path} is being written by {owner}: wait until that ends, or choose another name"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(handle)
                raise
            warnings.warn(
                f"the file system of {path} has no locks: make sure that no second run writes this"
                " file",
                ReplicaWarning,
                stacklevel=4,
            )
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # the owner before us removed it after we had opened it


def _beside(target: Path) -> str:
    """How the names of our hidden files for one target begin; short, whatever the length of its
    name.
    """
    name = target.name.encode(errors="surrogateescape")
    return f".replica-{hashlib.sha256(name).hexdigest()[:12]}"


def _lock_file(target: Path) -> Path:
    return target.with_name(f"{_beside(target)}.lock")


@contextlib.contextmanager
def _named(path: Name) -> Iterator[None]:
    """Errors of the system in writing, as a sentence about ``path``."""
    try:
        yield
    except FileExistsError as error:  # it appeared since check_target
        raise StoreError(f"{path} exists: choose another name or pass --force") from error
    except OSError as error:
        cause = (
            "the disk or the quota is full: free some space"
            if error.errno in _FULL
            else f"{reason(error)}: check the folder"
        )
        raise StoreError(f"{path} was not written, {cause} or choose another folder") from error


def reason(error: Exception) -> str:
    """What the system says of an error, in its own words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _write(target: Path, image: bytes, force: bool) -> None:
    temporary = target.with_name(f"{_beside(target)}-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(image)
            stream.flush()
            os.fsync(stream.fileno())
        _publish(temporary, target, force)
    finally:
        temporary.unlink(missing_ok=True)


def _publish(temporary: Path, target: Path, force: bool) -> None:
    """Give the finished file its name. Unlike a rename, a link fails if the name was taken
    meanwhile.
    """
    if not force:
        try:
            return os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:
            # No hard links on this file system: reserve the name, then replace our own empty file.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        os.replace(temporary, target)
    except OSError:
        if not force:
            target.unlink()
        raise
