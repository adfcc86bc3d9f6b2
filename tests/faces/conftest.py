"""What the tests of the faces share."""

import pytest
from IPython.utils.capture import capture_output


@pytest.fixture
def cell(shell):
    """Run a cell, and return its value, or raise its error."""

    def run_cell(source):
        with capture_output():
            answer = shell.run_cell(source)
        answer.raise_error()
        return answer.result

    return run_cell
