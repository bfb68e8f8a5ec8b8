"""How bash, zsh and fish ask for completions, and take them.

click has this too, but its scripts leave out what is to be continued without a blank (`node/`, `user=`), cut values at
blanks and commas, and bash tells its words split at `=`, where filters and labels have theirs whole.

An answer is a line, or in zsh three, for each completion: its type, its value, and a description. The types are plain,
nospace (no blank follows), dir and file.
"""

import os
import re
from typing import Final

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

_BASH: Final = """\
%(complete_func)s() {
    local reply line kind value
    reply=$(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORD="${COMP_WORDS[COMP_CWORD]}" \\
%(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS= read -r line; do
        kind=${line%%%%,*}
        value=${line#*,}
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            nospace) compopt -o nospace; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$reply"
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ZSH: Final = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain open described opendescribed response
    local kind key text
    (( ! $+commands[%(prog_name)s] )) && return 1

    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
%(complete_var)s=zsh_complete %(prog_name)s)}")

    for kind key text in ${response}; do
        case "$kind/$text" in
            plain/_) plain+=("$key") ;;
            plain/*) described+=("$key:$text") ;;
            nospace/_) open+=("$key") ;;
            nospace/*) opendescribed+=("$key:$text") ;;
            dir/*) _path_files -/ ;;
            file/*) _path_files -f ;;
        esac
    done

    (( $#described )) && _describe -V unsorted described -U
    (( $#opendescribed )) && _describe -V unsorted opendescribed -U -S ''
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#open )) && compadd -U -V unsorted -S '' -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    # autoload from fpath, call function directly
    %(complete_func)s "$@"
else
    # eval/source/. command, register function for later
    compdef %(complete_func)s %(prog_name)s
fi
"""
# fish itself adds no blank after a sign such as / or =
_FISH: Final = """\
function %(complete_func)s
    set -lx COMP_WORDS (commandline -cp)
    set -lx COMP_CWORD (commandline -t)
    for line in (env %(complete_var)s=fish_complete %(prog_name)s)
        set -l answer (string split -m 1 "," -- $line)
        switch $answer[1]
            case dir
                __fish_complete_directories $answer[2]
            case file
                __fish_complete_path $answer[2]
            case plain nospace
                echo $answer[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
# a word that has only signs at which bash splits
_SIGNS: Final = re.compile(r"[=:<>&|;]+")


class Bash(BashComplete):
    """bash tells the line up to the cursor, and the part of its last word that a completion replaces."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        # a shell that has the script of an older release tells none; it completes nothing until it has the new one
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)
        is_new = line[-1:].isspace() and not _has_open_quote(line)
        return (words[1:], "") if is_new or len(words) < 2 else (words[1:-1], words[-1])

    def format_completion(self, item: CompletionItem[str]) -> str:
        _, incomplete = self.get_completion_args()
        kept = len(incomplete) - len(_replaced(os.environ.get("COMP_WORD", incomplete), incomplete))
        return f"{item.type},{item.value[kept:]}"


class Zsh(ZshComplete):
    source_template = _ZSH


class Fish(FishComplete):
    source_template = _FISH


def _replaced(word: str, incomplete: str) -> str:
    """The end of what was typed that bash replaces."""
    bare = word[1:] if word[:1] in ("'", '"') else word
    if _SIGNS.fullmatch(bare):
        return ""
    return bare if incomplete.endswith(bare) else incomplete


def _has_open_quote(line: str) -> bool:
    return split_arg_string(f"{line}x")[-1] != "x"


def use_our_scripts() -> None:
    """Let click speak to the shells by these scripts."""
    known: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}
    for name, shell in known.items():
        add_completion_class(shell, name)
