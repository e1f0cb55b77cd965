"""A run of the command line: its exit status, and the one line that it gives for bad usage or input."""

import ctypes
import re
import signal
import sys
from contextlib import suppress

from typer.exceptions import TyperException

from coordnet.cli.app import app
from coordnet.cli.common import plain_warnings

TOO_LITTLE = "`memory`: expected enough for this signal and these options, found too little; try smaller ones"
ARENA_MAX = -8  # number of the option of ``mallopt`` in glibc that bounds how many arenas there are
MAX_MESSAGE = 500  # characters; the middle of a longer message is left out


def main() -> int:
    """Run the command line; 0 on success, 2 on bad usage or input with one line on standard error.

    Ctrl-C ends it with 130 and SIGTERM with 143, both without a trace of unfinished results.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # for an ASCII locale
    plain_warnings()
    _share_freed_memory()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    traced = Exception if len(arguments) < len(sys.argv) - 1 else ()  # --debug shows their traceback
    try:
        return int(app(arguments, standalone_mode=False) or 0)
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
    except KeyboardInterrupt:  # before typer, which returns 130 too, sees it
        return 130
    message, half = " ".join(message.split()), MAX_MESSAGE // 2
    shown = message if len(message) <= MAX_MESSAGE else f"{message[:half]} … {message[-half:]}"
    print(f"coordnet: {shown}", file=sys.stderr)
    return 2


def _share_freed_memory() -> None:
    """Let each thread use the memory that any thread freed, where the C library is glibc.

    It has an arena for each thread otherwise: tiles of a large picture, side by side, then take a sixth more memory.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(ARENA_MAX, 1)


def of_system(error: OSError) -> str:
    """Return the line about an error of the operating system, which names a file or, without one, the output."""
    if error.errno is None:
        return str(error)
    if error.filename is None:
        return f"the output: expected room to write, found an error ({error.strerror})"
    return f"{error.filename}: expected a file or folder that can be opened, found an error ({error.strerror})"


def as_typed(message: str, arguments: list[str]) -> str:
    """Name the option as it was typed in a message that begins with the name of an argument of the library.

    ```sigma`: expected …`` becomes ``--sigma: expected …`` if that option was typed, and
    ``--encoder gaussian:sigma=-1: `sigma`: expected …`` if it stood within another one.
    """
    match = re.match(r"`(\w+)`: ", message)
    if match is None:
        return message
    option = "--" + match[1].replace("_", "-")
    if any(a == option or a.startswith(f"{option}=") for a in arguments):
        return f"{option}: {message[match.end() :]}"
    for before, text in zip(arguments, arguments[1:], strict=False):
        if before.startswith("--") and re.search(rf"[:,]{match[1]}(=|,|$)", text):
            return f"{before} {text}: {message}"
    return message
