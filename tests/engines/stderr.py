"""Catches what native code says: some engines only log why they refuse a grammar."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Catch what native code writes to standard error; the function given returns it, during and after.

    For the whole process: one at a time.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as sink:
        said = ""

        def read() -> str:
            if sink.closed:
                return said
            sink.seek(0)
            return sink.read().decode(errors="replace")

        os.dup2(sink.fileno(), 2)
        try:
            yield read
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said = read()
