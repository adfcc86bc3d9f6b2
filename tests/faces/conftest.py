"""What the tests of the faces share."""

import pandas as pd
import pytest
from IPython.utils.capture import capture_output

from sleeper_nb import cli
from sleeper_nb.errors import SleeperError, hint_text


@pytest.fixture
def cell(shell):
    """Run a cell, and return its value, or raise its error."""

    def run_cell(source):
        with capture_output():
            answer = shell.run_cell(source)
        answer.raise_error()
        return answer.result

    return run_cell


@pytest.fixture
def typed(cell, shell):
    """Types what follows the magic, where a table of two keys has the three rows of ``$rows``."""
    rows = pd.DataFrame({"city": ["rome", "rome", "oslo"], "day": [1, 2, 1], "fare": [1.0, 20.0, 3.0]})
    shell.push({"rows": rows, "less": rows[["city", "day"]].assign(tip=1)})
    cell("%sleeper use ./warehouse")
    cell("%sleeper create trips --from $rows --keys city --sort day")
    return lambda line: cell(f"%sleeper {line}")


@pytest.fixture
def refused(typed):
    """Types a line, and returns the message and the hint of its error."""

    def refuse(line):
        with pytest.raises(SleeperError) as caught:
            typed(line)
        return caught.value.message, hint_text(caught.value.hint_parts, "%sleeper")

    return refuse


@pytest.fixture
def sleeper(folder, capsys):
    """Run a command on the console; return its exit code, output and errors."""

    def run(*words):
        code = cli.main(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
