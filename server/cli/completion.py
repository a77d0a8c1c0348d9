"""``guideway completion``: what a shell needs to complete command lines, made from the commands' own parsers."""

import argparse
import sys
from collections.abc import Iterator

from guideway.dsl.record import Record
from guideway.server.cli import entry
from guideway.server.cli.command import Command, Exit
from guideway.server.cli.console import write_json


class _Option(Record):
    """An option or an argument of a command, as shells need to know it. ``names`` is empty for an argument."""

    names: tuple[str, ...]
    choices: tuple[str, ...]
    takes_value: bool
    help: str
    repeats: bool


def _options(name: str) -> Iterator[_Option]:
    for action in entry.load(name).parser(name)._actions:  # noqa: SLF001  # argparse has no other way to list them
        yield _Option(
            tuple(action.option_strings),
            tuple(str(choice) for choice in action.choices or ()),
            not action.option_strings or action.nargs != 0,
            action.help or "",
            action.nargs in {"*", "+"},
        )


def _bash() -> Iterator[str]:
    yield "# guideway completion for bash: write this to a file, and `source` that in ~/.bashrc"
    yield "_guideway() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words="
    yield "    COMPREPLY=()"
    yield "    if [[ $COMP_CWORD -eq 1 ]]; then"
    yield f'        COMPREPLY=($(compgen -W "{" ".join(entry.COMMANDS)} --help --version" -- "$current"))'
    yield "        return"
    yield "    fi"
    yield "    case ${COMP_WORDS[1]} in"
    for name in entry.COMMANDS:
        options = list(_options(name))
        flags = " ".join(flag for option in options for flag in option.names)
        plain = " ".join(choice for option in options if not option.names for choice in option.choices)
        yield f"    {name})"
        yield f'        words="{plain}"; [[ $current == -* ]] && words="{flags}"'
        yield "        case $before in"
        for option in options:
            if option.names and option.takes_value:  # without choices it is left to bash, which completes files
                yield f'        {"|".join(option.names)}) words="{" ".join(option.choices)}" ;;'
        yield "        esac ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o bashdefault -o default -F _guideway guideway"


def _zsh() -> Iterator[str]:
    yield "#compdef guideway"
    yield "# guideway completion for zsh: write this to a file, and `source` that in ~/.zshrc behind compinit"
    yield "_guideway() {"
    yield "    local -a commands"
    yield "    commands=("
    for name, summary in entry.COMMANDS.items():
        yield f"        {_quoted(f'{name}:{summary}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "    local command=$words[2]"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $command in"
    for name in entry.COMMANDS:
        specifications = " ".join(_quoted(specification) for specification in _zsh_options(name))
        yield f"    {name}) _arguments {specifications} ;;"
    yield "    esac"
    yield "}"
    yield "compdef _guideway guideway"


def _zsh_options(name: str) -> Iterator[str]:
    arguments = 0
    for option in _options(name):
        help_text = option.help.translate(str.maketrans("[]:", "()-"))
        value = f"({' '.join(option.choices)})" if option.choices else "_files"
        for flag in option.names:
            yield f"{flag}[{help_text}]" + (f":value:{value}" if option.takes_value else "")
        if not option.names:
            arguments += 1
            yield f"{'*' if option.repeats else arguments}:argument:{value}"


def _fish() -> Iterator[str]:
    yield "# guideway completion for fish: write this to ~/.config/fish/completions/guideway.fish"
    for name, summary in entry.COMMANDS.items():
        yield f"complete -c guideway -n __fish_use_subcommand -f -a {name} -d {_quoted(summary)}"
    for name in entry.COMMANDS:
        where = f"complete -c guideway -n '__fish_seen_subcommand_from {name}'"
        for option in _options(name):
            flags = "".join(f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in option.names)
            choices = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else ""
            value = " -r" if option.names and option.takes_value and not option.choices else ""
            if flags or choices:
                yield f"{where}{flags}{choices}{value} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    """Return a word in single quotes, as all three shells read them; what would end them is left out."""
    return "'" + text.replace("'", "").replace("\\", "") + "'"


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SHELLS), help="whose script to print")


def _run(options: argparse.Namespace) -> int:
    script = "\n".join(_SHELLS[options.shell]()) + "\n"
    if options.json:
        write_json({"shell": options.shell, "script": script})
    else:
        sys.stdout.write(script)
    return Exit.OK


COMMAND = Command(
    summary="print the completion script of a shell",
    description="Print the completion script of a shell. Write it to a file and load that: making it takes a second.",
    examples=(
        "guideway completion bash > ~/.guideway.bash",
        "guideway completion zsh > ~/.guideway.zsh",
        "guideway completion fish > ~/.guideway.fish",
    ),
    exits=((Exit.OK, "the script was printed"),),
    arguments=_arguments,
    run=_run,
)
