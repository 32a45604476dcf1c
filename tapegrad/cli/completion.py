"""The command that prints a shell's completion script, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from tapegrad.cli.command import Command


class Word(NamedTuple):
    """An option or an argument: its flag ("" for an argument), its choices, whether it takes a value, and its help."""

    flag: str
    choices: tuple[str, ...]
    takes: bool
    help: str


class Entry(NamedTuple):
    """A command as a shell completes it."""

    name: str
    summary: str
    words: list[Word]


def entries(parser: argparse.ArgumentParser) -> Iterator[Entry]:
    """Yield the commands of a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                yield Entry(name, summaries[name], [_word(option) for option in sub._actions])


def _word(option: argparse.Action) -> Word:
    choices = tuple(map(str, option.choices or ()))
    return Word(option.option_strings[-1] if option.option_strings else "", choices, option.nargs != 0,
                option.help or "")


def bash(commands: list[Entry]) -> str:
    """Return the script for bash."""
    cases = []
    for entry in commands:
        choices = [f"    {entry.name}:{word.flag}) words='{' '.join(word.choices)}' ;;" for word in entry.words
                   if word.flag and word.choices]
        flags = " ".join(word.flag for word in entry.words if word.flag)
        given = " ".join(choice for word in entry.words if not word.flag for choice in word.choices)
        cases += [*choices, f"    {entry.name}:*) words='{' '.join(filter(None, [flags, given]))}' ;;"]
    names = " ".join(entry.name for entry in commands)
    return f"""\
# source <(tapegrad completion bash)
_tapegrad() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{names} --help --version' -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD - 1]}}" in
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -F _tapegrad tapegrad
"""


def zsh(commands: list[Entry]) -> str:
    """Return the script for zsh."""
    names = "\n".join(f"    {_quoted(f'{entry.name}:{entry.summary}')}" for entry in commands)
    cases = []
    for entry in commands:
        parts = [_argument(word) for word in entry.words if word.flag]
        given = " ".join(choice for word in entry.words if not word.flag for choice in word.choices)
        parts.append(_quoted(f"*:value:({given})") if given else "'*:value:_files'")
        cases.append(f"    {entry.name}) _arguments {' '.join(parts)} ;;")
    return f"""\
#compdef tapegrad
# source <(tapegrad completion zsh), or as _tapegrad in a folder of $fpath
_tapegrad() {{
  local -a commands
  commands=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{chr(10).join(cases)}
  esac
}}
if [ "$funcstack[1]" = "_tapegrad" ]; then _tapegrad "$@"; else compdef _tapegrad tapegrad; fi
"""


def _argument(word: Word) -> str:
    takes = "" if not word.takes else f":value:({' '.join(word.choices)})" if word.choices else ":value:_files"
    return _quoted(f"{word.flag}[{word.help.replace('[', '(').replace(']', ')').replace(':', ' ')}]{takes}")


def fish(commands: list[Entry]) -> str:
    """Return the script for fish."""
    lines = ["# tapegrad completion fish | source"]
    lines += [f"complete -c tapegrad -n __fish_use_subcommand -f -a {entry.name} -d {_told(entry.summary)}"
              for entry in commands]
    for entry in commands:
        here = f"complete -c tapegrad -n '__fish_seen_subcommand_from {entry.name}'"
        for word in entry.words:
            choices = f" -xa '{' '.join(word.choices)}'" if word.choices else " -r" if word.takes and word.flag else ""
            if word.flag:
                lines.append(f"{here} {_fish_flag(word.flag)}{choices} -d {_told(word.help)}")
            elif choices:
                lines.append(f"{here}{choices}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _quoted(text: str, apostrophe: str = "'\\''") -> str:
    return "'" + text.replace("'", apostrophe) + "'"


def _told(text: str) -> str:
    return _quoted(text, "\\'")  # fish's escape


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def run_completion(options: argparse.Namespace) -> None:
    """Print the script for a shell."""
    print(SHELLS[options.shell](list(entries(options.parser))), end="")


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SHELLS), help="which shell")


COMPLETION = Command("completion", "print a script by which a shell completes commands and options", """\
  source <(tapegrad completion bash)
  tapegrad completion fish | source
""", _completion, run_completion)
