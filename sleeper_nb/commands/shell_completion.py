"""Tab for ``sleeper`` in bash, zsh and fish: the script that a shell reads, and the answers that the script asks for.

The script calls ``sleeper --complete SHELL LINE``. The first line of the answer says what follows: `WORDS`, one a line,
which the shell puts in as they are; or `FILES`, which the shell completes in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sleeper_nb.commands.candidates import NOTHING, Candidates, CommandCompleter, TypedWords, as_one_word, split_typed
from sleeper_nb.commands.help import ON_CONSOLE
from sleeper_nb.commands.home import find_home
from sleeper_nb.commands.known_names import FolderNames

WORDS, FILES = "words", "files"
_BREAKS = " \t\n\"'@><=;|&(:"
"""Where bash begins the word that it completes, unless COMP_WORDBREAKS was changed."""
_KEPT = "@"
"""The one of them that belongs to the word after it."""

_BASH = r"""# Tab for sleeper in bash. In ~/.bashrc:  eval "$(sleeper completion bash)"
_sleeper_complete() {
    local line kind=""
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("$line"); fi
    done < <("$1" --complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null </dev/null)
    if [[ $kind == files ]]; then
        compopt -o default +o nospace 2>/dev/null
    fi
}
complete -o nospace -F _sleeper_complete sleeper
"""
_ZSH = r"""#compdef sleeper
# Tab for sleeper in zsh. In ~/.zshrc, after compinit:  eval "$(sleeper completion zsh)"
_sleeper() {
    local -a found end
    local line="${(j: :)words[1,CURRENT-1]} ${QIPREFIX}${IPREFIX}${PREFIX}"
    found=("${(@f)$("${(Q)words[1]}" --complete zsh "$line" 2>/dev/null </dev/null)}")
    if [[ $found[1] == files ]]; then
        _files
        return
    fi
    (( $#found > 3 )) || return 1
    local before=${PREFIX[1,-1-found[2]]}
    [[ $found[3] == on ]] && end=(-S '')
    compadd -U "${(@)end}" -P "$before" -- "${(@)found[4,-1]}"
}
if [[ $funcstack[1] == _sleeper ]]; then _sleeper "$@"; else compdef _sleeper sleeper; fi
"""
_FISH = r"""# Tab for sleeper in fish. In ~/.config/fish/config.fish:  sleeper completion fish | source
function __sleeper_complete
    set -l words (commandline -opc)
    set -l found (command $words[1] --complete fish (commandline -cp | string collect) 2>/dev/null </dev/null)
    if test "$found[1]" = files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $found[2..-1]
    end
end
complete -c sleeper -f -a '(__sleeper_complete)'
"""
SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def answer(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """Return the answer to a script; nothing is offered when anything is wrong.

    Parameters
    ----------
    arguments
        The shell, the line up to the cursor as it was typed, and for bash its COMP_WORDBREAKS.
    environment, folder
        Where the warehouse is found, as by every command.
    """
    try:
        shell, line, *breaks = arguments
        typed = line.strip("\n").lstrip().partition(" ")[2]
        found = _completer(typed, environment, folder).complete(typed)
        return _written(shell, found, split_typed(typed), *breaks)
    except Exception:  # noqa: BLE001 - a message in the middle of the line that is typed would be worse than nothing
        return WORDS


def _completer(typed: str, environment: Mapping[str, str], folder: Path) -> CommandCompleter:
    words, given = split_typed(typed).words, {"--instance": "default", "--warehouse": ""}
    for name in given:
        for at, word in enumerate(words):
            if word.startswith(f"{name}="):
                given[name] = word.partition("=")[2]
            elif word == name and at + 1 < len(words):
                given[name] = words[at + 1]
    home = find_home(given["--instance"], given["--warehouse"] or None, environment, folder)
    return CommandCompleter(FolderNames(home, given["--instance"]), ON_CONSOLE)


def _written(shell: str, found: Candidates, line: TypedWords, breaks: str = _BREAKS) -> str:
    if found.files:
        return FILES
    if found == NOTHING:
        return WORDS
    if shell == "zsh":
        return "\n".join((WORDS, str(len(found.fragment)), "on" if found.goes_on else "end", *found.words))
    if shell == "fish":
        before = line.last.removesuffix(found.fragment)
        return "\n".join((WORDS, *(before + word for word in found.words)))
    end = "" if found.goes_on or line.quote else " "
    words = [_for_bash(word, found, line, breaks) + end for word in found.words]
    if found.goes_on and line.quote and len(words) == 1:
        words.append(f"{words[0]} ")  # after an only word, bash would close the quote
    return "\n".join((WORDS, *words))


def _for_bash(word: str, found: Candidates, line: TypedWords, breaks: str) -> str:
    """Return what bash puts in place of the last part of the line, which is not always all of the last word."""
    before = line.raw.removesuffix(found.fragment)
    if line.quote:  # bash replaces all that follows the quote
        return before + word
    whole = before + as_one_word(word)
    start = max((at for at, each in enumerate(line.raw) if each in breaks), default=-1)
    start += line.raw[start] not in _KEPT if start >= 0 else 1
    return whole[start:]
