"""`usher reload`: has every running process of a configuration read it again, and prints what came of it."""

import sys
from pathlib import Path

from bot.app import control_socket, logs
from bot.app.control_socket import NotRunning
from bot.config.loader import sign_at

REFUSED = 1
NOT_RUNNING = 2


def reload(path: Path) -> int:
    """Reload, print the answers and return the exit status.

    The file is read by the processes, with their environment; here it only says where they are.
    """
    hide = logs.Redactor()
    refused = False
    try:
        answers = list(control_socket.call_all(sign_at(path)))
    except NotRunning:
        print(f"no running bot has {path}: start it with `usher run`", file=sys.stderr)
        return NOT_RUNNING
    for process, outcome in answers:
        refused = refused or bool(outcome.problems)
        stream = sys.stderr if outcome.problems else sys.stdout
        if len(answers) > 1:
            print(f"process {process}:", file=stream)
        print(hide("\n".join(outcome.lines())), file=stream)
    return REFUSED if refused else 0
