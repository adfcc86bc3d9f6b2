"""Several ``%sleeper`` lines in one cell: each shows its answer, where Python would show the last line's alone."""

from __future__ import annotations

import ast

_SHOW = "lambda answer: answer is None or display(answer)"


class EveryAnswer(ast.NodeTransformer):
    """Displays the answers of lines that are not a cell's last, for ``InteractiveShell.ast_transformers``."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Wrap the lines of a cell that begin with ``%sleeper``; one in a loop or with a name before it stays."""
        for line in node.body[:-1]:
            if isinstance(line, ast.Expr) and _is_magic(line.value):
                shown = ast.Call(ast.parse(_SHOW, mode="eval").body, args=[line.value], keywords=[])
                line.value = ast.copy_location(shown, line.value)
        return ast.fix_missing_locations(node)


def _is_magic(value: ast.expr) -> bool:
    """Return whether an expression is what IPython makes of a line that begins with ``%sleeper``."""
    match value:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="run_line_magic"),
            args=[ast.Constant(value="sleeper"), *_],
        ):
            return True
    return False
