"""Compiled programs that are kept on disk, so that the next process need not compile them again.

JAX does the keeping. Here is where, for the library as for the command line, and what makes it safe
to leave on: a folder that the user chose is never replaced, entries that cannot be read are
removed, and nothing that is wrong with the folder is an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import threading
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import platformdirs

VARIABLE, OFF = "REPLICA_CACHE", "off"
SHORTEST = 0.2
"""Seconds of compilation from which on a program is kept; JAX's default is 1."""
DEFAULT_SHORTEST = 1.0
STAMP = ".read"
"""A file whose time says up to when the entries were read and found whole."""
BLOCK = 1 << 20

_log = logging.getLogger("replica")
_once, _set_up = threading.Lock(), False


def cache_folder() -> Path | None:
    """The folder in which compiled programs are kept.

    It is the user's cache folder (``~/.cache/replica-solver`` on Linux), or what the environment
    variable ``REPLICA_CACHE`` names. Deleting it loses nothing but time.

    Returns
    -------
    Path or None
        None if nothing is kept: ``REPLICA_CACHE=off``.
    """
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen.lower() == OFF:
        return None
    folder = Path(chosen or platformdirs.user_cache_dir("replica-solver", appauthor=False))
    try:
        folder = folder.expanduser()
    except RuntimeError:  # nobody's home
        return None
    # Without a home the default is no absolute path; one that was chosen may be relative.
    return folder.absolute() if chosen or folder.is_absolute() else None


def keep_programs() -> None:
    """Let JAX keep what it compiles in ``cache_folder()``, unless the user has given it a folder of
    their own or turned keeping off; to be called before something is compiled.
    """
    global _set_up
    if _set_up:
        return
    with _once:
        if not _set_up:
            _tell_jax()
        _set_up = True


def kept_in() -> str:
    """Where JAX keeps programs now; empty if nowhere."""
    import jax

    config: Any = jax.config
    return (config.jax_compilation_cache_dir or "") if config.jax_enable_compilation_cache else ""


def _tell_jax() -> None:
    import jax

    config: Any = jax.config
    root = cache_folder()
    chosen = config.jax_compilation_cache_dir is not None
    if root is None or chosen or not config.jax_enable_compilation_cache:
        return
    folder = root / "jax" / machine()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unreadable(folder)
    except OSError as problem:
        if not folder.is_dir():
            _log.info("compiled programs are not kept (%s)", problem)
            return
        # A folder that is read-only or full still has entries to use.
    # What JAX cannot read it compiles, what it cannot write is lost: both are no news to a user.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    config.update("jax_compilation_cache_dir", str(folder))
    if config.jax_persistent_cache_min_compile_time_secs == DEFAULT_SHORTEST:
        config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)


def machine() -> str:
    """A name for what programs are compiled for: home folders are shared by machines whose
    processors differ, and JAX's own keys do not hold the instructions that a processor knows.
    """
    known = [platform.system(), platform.machine(), platform.processor()]
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    first = text.partition("\n\n")[0].splitlines()
    known += [line for line in first if line.startswith(("model name", "flags", "Features"))]
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()
    return f"{platform.machine() or 'machine'}-{digest[:12]}"


def remove_unreadable(folder: Path) -> list[Path]:
    """Delete the entries that are no whole compressed file, of those that changed since the last
    time; JAX would never replace them. (A process that was killed, or a full disk, leaves such.)
    """
    stamp, begin = folder / STAMP, time.time_ns()
    since = stamp.stat().st_mtime_ns if stamp.exists() else 0
    removed = []
    for entry in folder.glob("*-cache"):
        if entry.stat().st_mtime_ns >= since and not _is_whole(entry):
            entry.unlink()
            removed.append(entry)
    stamp.touch()
    os.utime(stamp, ns=(begin, begin))
    return removed


def _is_whole(entry: Path) -> bool:
    """Whether a file decompresses; of other formats than zlib's only the beginning is known."""
    with entry.open("rb") as file:
        block = file.read(BLOCK)
        if block.startswith(b"\x28\xb5\x2f\xfd"):  # zstandard, where it is installed
            return True
        reader = zlib.decompressobj()
        try:
            while block:
                reader.decompress(block)
                block = file.read(BLOCK)
        except zlib.error:
            return False
    return reader.eof
