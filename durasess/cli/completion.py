"""`durasess completion`: a script that completes verbs, options and paths, made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from durasess.cli import completion_sessions, options
from durasess.cli.output import SOUND, Output

Takes = Literal["nothing", "value", "file", "directory", "word", "session"]
"""What follows an option, or stands at a place: `word` is one of a few, `session` a directory or an
id in the store."""

_TAKES: dict[str, Takes] = {
    "DIR": "directory",
    "FILE": "file",
    "[FORMAT] FILE": "file",
    "SESSION": "session",
}


class Argument(NamedTuple):
    """An option with its `flags`, or without any a place in the line."""

    flags: tuple[str, ...]
    name: str
    about: str
    takes: Takes
    words: tuple[str, ...] = ()
    values: int = 1
    many: bool = False


class Verb(NamedTuple):
    """A verb of the command."""

    name: str
    about: str
    options: tuple[Argument, ...]
    places: tuple[Argument, ...]


def add_to(verbs: options.Verbs) -> None:
    """Declare the verb."""
    parser = options.add_verb(
        verbs,
        "completion",
        run,
        summary="Print a script that completes this command in your shell.",
        more="bash: source it, or keep it as below. zsh: keep it as _durasess in a directory of\n"
        "$fpath. fish: keep it as ~/.config/fish/completions/durasess.fish.",
        example="durasess completion bash > ~/.local/share/bash-completion/completions/durasess",
    )
    parser.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help="bash, zsh or fish")


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Print the script of a shell."""
    verbs = list(verbs_of(chosen.parser))
    script = "\n".join(SCRIPTS[chosen.shell](verbs)) + "\n"
    output.script(chosen.shell, script)
    return SOUND


def verbs_of(parser: argparse.ArgumentParser) -> Iterator[Verb]:
    """The verbs of the command, as its parser knows them."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        about = {one.dest: one.help or "" for one in action._choices_actions}
        for name, verb in action.choices.items():
            found = [_argument(one) for one in verb._actions]
            yield Verb(
                name,
                about.get(name, ""),
                tuple(one for one in found if one.flags),
                tuple(one for one in found if not one.flags),
            )


def _argument(action: argparse.Action) -> Argument:
    names = action.metavar if isinstance(action.metavar, tuple) else (action.metavar or "",)
    takes: Takes = _TAKES.get(names[0], "value")
    # Behind an option whose value may be left out the next option can come at once.
    if action.nargs == 0 or (action.nargs == "?" and action.option_strings):
        takes = "nothing"
    elif action.choices is not None:
        takes = "word"
    about = (action.help or "").replace("%(default)s", str(action.default))
    return Argument(
        tuple(action.option_strings),
        names[0],
        about,
        takes,
        tuple(map(str, action.choices or ())),
        action.nargs if isinstance(action.nargs, int) else 1,
        action.nargs in ("+", "*"),
    )


# -- bash ---------------------------------------------------------------------------------------


def _bash(verbs: list[Verb]) -> Iterator[str]:
    first = [verb.name for verb in verbs] + ["--help", "--version"]
    yield "# Completion of durasess for bash."
    yield from completion_sessions.BASH.splitlines()
    yield "_durasess() {"
    yield "    local IFS=$'\\n' cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}"
    yield "    COMPREPLY=()"
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        COMPREPLY=($(compgen -W {_lines(first)} -- "$cur"))'
    yield "        return"
    yield "    fi"
    yield "    case ${COMP_WORDS[1]}:$prev in"
    for verb in verbs:
        for option in verb.options:
            if option.takes != "nothing":
                names = "|".join(f"{verb.name}:{flag}" for flag in option.flags)
                yield f"        {names}) {_bash_reply(option)}return ;;"
    yield "    esac"
    yield "    case ${COMP_WORDS[1]}:$cur in"
    for verb in verbs:
        flags = [flag for option in verb.options for flag in option.flags]
        yield f'        {verb.name}:-*) COMPREPLY=($(compgen -W {_lines(flags)} -- "$cur")) ;;'
    for verb in verbs:
        for place in verb.places[:1]:
            yield f"        {verb.name}:*) {_bash_reply(place)};;"
    yield "    esac"
    yield "}"
    yield "complete -F _durasess durasess"


def _bash_reply(argument: Argument) -> str:
    match argument.takes:
        case "directory":
            return 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); '
        case "file":
            return 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); '
        case "session":
            return "_durasess_sessions; "
        case "word":
            words = _lines(list(argument.words))
            return f'COMPREPLY=($(compgen -W {words} -- "$cur")); '
        case _:
            return ""


def _lines(words: list[str]) -> str:
    return "$'" + "\\n".join(words) + "'"


# -- zsh ----------------------------------------------------------------------------------------


def _zsh(verbs: list[Verb]) -> Iterator[str]:
    yield "#compdef durasess"
    yield "# Completion of durasess for zsh."
    yield from completion_sessions.ZSH.splitlines()
    yield "_durasess() {"
    yield "    local state line"
    yield "    local -a verbs"
    yield "    verbs=("
    yield from (f"        {_quoted(f'{verb.name}:{verb.about}')}" for verb in verbs)
    yield "    )"
    yield "    _arguments -C '--help[show help]' '--version[show the version]' \\"
    yield "        '1:verb:->verb' '*::argument:->rest'"
    yield "    case $state in"
    yield "        verb) _describe verb verbs ;;"
    yield "        rest)"
    yield "            case $words[1] in"
    for verb in verbs:
        places = [_zsh_place(place, at) for at, place in enumerate(verb.places, 1)]
        specs = [*map(_zsh_option, verb.options), *places]
        yield f"                {verb.name}) _arguments \\"
        lines = [f"                    {spec}" for spec in specs]
        yield " \\\n".join(lines) + " ;;"
    yield "            esac ;;"
    yield "    esac"
    yield "}"
    # Loaded from $fpath it is called as the function; else it was sourced.
    yield 'if [ "$funcstack[1]" = _durasess ]; then'
    yield '    _durasess "$@"'
    yield "else"
    yield "    compdef _durasess durasess"
    yield "fi"


def _zsh_option(option: Argument) -> str:
    about = option.about.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = "" if option.takes == "nothing" else _zsh_value(option) * option.values
    return _quoted(f"{option.flags[-1]}[{about}]{value}")


def _zsh_place(place: Argument, at: int) -> str:
    return _quoted(("*" if place.many else str(at)) + _zsh_value(place))


def _zsh_value(argument: Argument) -> str:
    action = _ZSH_ACTIONS.get(argument.takes)
    # Without a name there would be two colons, which mean that no value need follow.
    name = argument.name or "VALUE"
    return f":{name}:{action or '(' + ' '.join(argument.words) + ')'}"


_ZSH_ACTIONS: dict[Takes, str] = {
    "directory": "_directories",
    "file": "_files",
    "session": "_durasess_sessions",
    "value": " ",
}

# -- fish ---------------------------------------------------------------------------------------


def _fish(verbs: list[Verb]) -> Iterator[str]:
    yield "# Completion of durasess for fish."
    yield from completion_sessions.FISH.splitlines()
    yield "complete -c durasess -f"
    yield "complete -c durasess -n __fish_use_subcommand -l help -d 'show help'"
    yield "complete -c durasess -n __fish_use_subcommand -l version -d 'show the version'"
    for verb in verbs:
        head = "complete -c durasess -n __fish_use_subcommand"
        yield f"{head} -a {verb.name} -d {_fish_quoted(verb.about)}"
    for verb in verbs:
        head = f"complete -c durasess -n '__fish_seen_subcommand_from {verb.name}'"
        for option in verb.options:
            names = " ".join(_fish_flag(flag) for flag in option.flags)
            yield f"{head} {names}{_fish_takes(option)} -d {_fish_quoted(option.about)}"
        for place in verb.places:
            yield f"{head}{_fish_takes(place, at_place=True)}"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _fish_takes(argument: Argument, *, at_place: bool = False) -> str:
    exclusive = "" if at_place else " -x"
    match argument.takes:
        case "directory":
            return f"{exclusive} -a '(__fish_complete_directories)'"
        case "session":
            return f"{exclusive} -a '(__durasess_sessions)'"
        case "file":
            return " -r -F"
        case "word":
            return f"{exclusive} -a '{' '.join(argument.words)}'"
        case "value":
            return exclusive
        case _:
            return ""


def _quoted(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS: dict[str, Callable[[list[Verb]], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
