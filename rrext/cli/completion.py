"""`rrext completion`: the script that lets a shell complete commands, options, files and tools."""

from __future__ import annotations

import argparse
from typing import Final

DESCRIPTION = "Print the script that completes the commands of rrext in a shell."
EXAMPLE = """examples:
  eval "$(rrext completion bash)"                                # in ~/.bashrc
  rrext completion zsh > "${fpath[1]}/_rrext"                    # once
  rrext completion fish > ~/.config/fish/completions/rrext.fish  # once

Tab completes commands, options, .pipe files, tools and their parameters, nodes and providers. It runs nothing of a pipeline.
"""
BASH: Final = r"""_rrext() {
  local current=${COMP_WORDS[COMP_CWORD]} kind= text rest
  COMPREPLY=()
  [[ $current == "=" ]] && current=
  while IFS=$'\t' read -r text rest; do
    if [[ -z $kind ]]; then kind=$text; else COMPREPLY+=("$text"); fi
  done < <("${COMP_WORDS[0]}" completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case $kind in
    pipes) compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current"; compgen -f -X '!*.pipe' -- "$current") ;;
    folders) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    files|value) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    keys) compopt -o nospace ;;
  esac
}
complete -F _rrext rrext
"""
ZSH: Final = r"""#compdef rrext
_rrext() {
  local -a lines texts
  local kind
  lines=("${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  kind=${lines[1]}
  lines=("${(@)lines[2,-1]}")
  case $kind in
    pipes) _files -g '*.pipe' ;;
    folders) _files -/ ;;
    files) _files ;;
    value) compset -P '*='; _files ;;
    keys) texts=("${(@)lines%%$'\t'*}"); compadd -S '' -a texts ;;
    words) lines=("${(@)lines//:/\\:}"); lines=("${(@)lines/$'\t'/:}"); (( $#lines )) && _describe rrext lines ;;
  esac
}
if [[ $funcstack[1] == _rrext ]]; then _rrext "$@"; else compdef _rrext rrext; fi
"""
FISH: Final = r"""function __rrext_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] completion words $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case pipes
            __fish_complete_suffix .pipe
        case folders
            __fish_complete_directories "$current"
        case files value
            __fish_complete_path (string replace -r '^.*?=' '' -- "$current")
        case '*'
            printf '%s\n' $lines[2..-1]
    end
end
complete -c rrext -f -a '(__rrext_complete)'
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", metavar="SHELL", choices=(*SCRIPTS, "words"), help="bash, zsh or fish")
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the script, or for `words` what may follow: the kind, then a word and its description per line."""
    if args.shell in SCRIPTS:
        print(SCRIPTS[args.shell], end="")
        return 0
    from rrext.cli.command_words import following

    found = following(args.words)
    print(found.kind, *("\t".join(word) for word in found.words), sep="\n")
    return 0
