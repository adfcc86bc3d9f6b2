"""What the tests of the faces share."""

import pytest
from IPython.utils.capture import capture_output

from sleeper_nb import cli


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
def sleeper(folder, capsys):
    """Run a command on the console; return its exit code, output and errors."""

    def run(*words):
        code = cli.main(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
