"""The shell functions with which the scripts of `completion` offer sessions: the ids in the store,
the one behind --store if there is one, and directories. They list it; no Python is started.
"""

BASH = r"""
_durasess_sessions() {
    local store=${DURASESS_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/durasess/sessions} at ids
    for ((at = 1; at < COMP_CWORD; at++)); do
        [ "${COMP_WORDS[at]}" != --store ] || store=${COMP_WORDS[at + 1]/#\~/$HOME}
    done
    # Only what may be an id: compgen would expand a name with a $ in it.
    ids=$(command ls -- "$store" 2>/dev/null | command grep -E '^[A-Za-z0-9][A-Za-z0-9._-]*$')
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -d -- "$cur"; compgen -W "$ids" -- "$cur"))
}
""".strip()
"""`_durasess_sessions` sets COMPREPLY for `cur`."""

ZSH = r"""
_durasess_sessions() {
    local store=${DURASESS_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/durasess/sessions}
    local -a ids
    [ -z "${opt_args[--store]}" ] || store=${~opt_args[--store]}
    ids=($store/*(N/:t))
    _alternative 'sessions:session:compadd -a ids' 'directories:directory:_directories'
}
""".strip()
"""An action of _arguments."""

FISH = r"""
function __durasess_sessions
    set -l words (commandline -opc)
    set -l store $DURASESS_HOME
    set -l data $XDG_DATA_HOME ~/.local/share
    test -n "$store"; or set store $data[1]/durasess/sessions
    set -l at (contains -i -- --store $words); and set store $words[(math $at + 1)]
    command ls -- $store 2>/dev/null
    __fish_complete_directories
end
""".strip()
"""Prints the words."""
