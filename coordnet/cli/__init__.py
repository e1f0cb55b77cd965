"""The command line: ``coordnet COMMAND …``."""

import sys
import warnings

from coordnet.cli.app import app

TOO_LITTLE = "expected enough memory for this signal, found too little; try a smaller one"


def main() -> int:
    """Run the command line; 0 on success, 2 on bad usage or input with one line on standard error, 130 on Ctrl-C."""
    warnings.formatwarning = lambda message, *_, **__: f"coordnet: {message}\n"
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    if len(arguments) < len(sys.argv) - 1:
        return int(app(arguments, standalone_mode=False) or 0)
    from typer.exceptions import TyperException

    try:
        return int(app(arguments, standalone_mode=False) or 0)
    except TyperException as error:
        message = error.format_message()
    except (ValueError, OSError, FloatingPointError) as error:
        message = str(error)
    except MemoryError:
        message = TOO_LITTLE
    except RuntimeError as error:
        if "memory" not in str(error):  # PyTorch has no MemoryError: it says so in words
            raise
        message = TOO_LITTLE
    except KeyboardInterrupt:
        print("coordnet: interrupted", file=sys.stderr)
        return 130
    print("coordnet: " + " ".join(message.split()), file=sys.stderr)
    return 2
