"""A run of the command line: its exit status, and the one line that it gives for bad usage or input."""

import ctypes
import io
import signal
import sys
from contextlib import suppress
from typing import Any

from typer.exceptions import TyperException

from coordnet.cli.app import app
from coordnet.cli.declaring import as_typed, plain_warnings

TOO_LITTLE = "`memory`: expected enough for this signal and these options, found too little; try smaller ones"
# Options of ``mallopt`` in glibc, by their numbers in malloc.h: one arena; free memory at its end is returned to the
# system from 256 MiB on; 32 MiB and more are mapped apart.
MALLOC_OPTIONS = {-8: 1, -1: 2**28, -3: 2**25}
INTERRUPTED = 130  # exit status after Ctrl-C: 128 and the number of the signal
MAX_MESSAGE = 500  # characters; the middle of a longer message is left out


def main() -> int:
    """Run the command line; 0 on success, 2 on bad usage or input with one line on standard error.

    Ctrl-C ends it with 130 and a line that says so, SIGTERM with 143, both without a trace of unfinished results.
    """
    sys.stdout, sys.stderr = _open(sys.stdout), _open(sys.stderr)
    plain_warnings()
    _keep_freed_memory()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    traced = Exception if len(arguments) < len(sys.argv) - 1 else ()  # --debug shows their traceback
    try:
        status = int(app(arguments, standalone_mode=False) or 0)
        if status == INTERRUPTED:  # typer saw the interrupt
            raise KeyboardInterrupt
        return status
    except TyperException as error:
        message = error.format_message()
    except traced:
        raise
    except OSError as error:
        message = of_system(error)
    except (ValueError, OverflowError, FloatingPointError) as error:
        message = as_typed(str(error), arguments)
    except MemoryError:
        message = TOO_LITTLE
    except RuntimeError as error:
        if "memory" not in str(error):  # PyTorch has no MemoryError: it says so in words
            raise
        message = TOO_LITTLE
    except KeyboardInterrupt:
        print("\ncoordnet: interrupted", file=sys.stderr)
        return INTERRUPTED
    message, half = " ".join(message.split()), MAX_MESSAGE // 2
    shown = message if len(message) <= MAX_MESSAGE else f"{message[:half]} … {message[-half:]}"
    print(f"coordnet: {shown}", file=sys.stderr)
    return 2


def _open(stream: Any) -> Any:
    """Return a standard stream that an ASCII locale does not break, and a text in the place of one that was closed."""
    if stream is None:
        return io.StringIO()
    stream.reconfigure(errors="backslashreplace")
    return stream


def _keep_freed_memory() -> None:
    """Keep freed memory for all threads, where the C library is glibc.

    Each thread has an arena of its own otherwise: tiles of a large picture, side by side, then take a sixth more.
    Pages that return to the system and are asked for again take a twelfth of the time of a fit by the local prior.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        for option, value in MALLOC_OPTIONS.items():
            library.mallopt(option, value)


def of_system(error: OSError) -> str:
    """Return the line about an error of the operating system, which names a file or, without one, the output."""
    if error.errno is None:
        return str(error)
    if error.filename is None:
        return f"the output: expected room to write, found an error ({error.strerror})"
    return f"{error.filename}: expected a file or folder that can be opened, found an error ({error.strerror})"
