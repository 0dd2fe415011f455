"""`python -m jit` (and `framejit`): runs scripts compiled, shows what became of them, looks after cache and machine."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from textwrap import indent

from rich.console import Console
from rich.table import Table

from jit import autowrap, cache, doctor, minify, reasons, script
from jit.config import config

STYLES = {"works": "green", "missing": "yellow", "broken": "red"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: the script's own where one is run, 2 for what can't be understood or found."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except script.NotFound as error:
        print(f"framejit: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m jit", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run a script compiled, as JIT_AUTO=1 does")
    _takes_script(run)
    run.set_defaults(run=_run)

    explain = commands.add_parser("explain", help="the same, then say what was compiled and what breaks graphs")
    _takes_script(explain)
    explain.set_defaults(run=_explain)

    dump = commands.add_parser("dump", help="the same, with readable files of all that is generated in FOLDER")
    dump.add_argument("folder", metavar="FOLDER")
    _takes_script(dump)
    dump.set_defaults(run=_dump)

    bench = commands.add_parser("bench", help="time a script in fresh processes, as it is and compiled, in turn")
    bench.add_argument("--rounds", type=int, default=3, help="the medians of how many runs of each (default 3)")
    _takes_script(bench)
    bench.set_defaults(run=_bench)

    kept = commands.add_parser("cache", help="what is kept on disk for the next process")
    kept.add_argument("action", choices=["list", "clear"])
    kept.set_defaults(run=_cache)

    small = commands.add_parser("minify", help="make a script that shows a fault small; which stage is at fault")
    small.add_argument("script", metavar="SCRIPT", help="as failing backends leave: class Program, function inputs")
    small.set_defaults(run=lambda options: minify.main(options.script))

    why = commands.add_parser("why", help="why a graph breaks and what to do: the name in brackets behind a reason")
    why.add_argument("name", nargs="?", metavar="NAME", help="without one: all names")
    why.set_defaults(run=_why)

    commands.add_parser("doctor", help="what works on this machine, and how to mend the rest").set_defaults(run=_doctor)
    return parser


def _takes_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="is_module", action="store_true", help="a module instead of a file")
    parser.add_argument("script", metavar="SCRIPT", help="a file, or with -m a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's own")


def _run(options: argparse.Namespace) -> int:
    return script.run([options.script, *options.arguments], options.is_module)


def _explain(options: argparse.Namespace) -> int:
    try:
        return _run(options)
    finally:
        autowrap.show_report()


def _dump(options: argparse.Namespace) -> int:
    config.dump = os.path.abspath(options.folder)
    return _run(options)


def _bench(options: argparse.Namespace) -> int:
    """Plain and compiled processes by turns. The script's output is shown where it fails, and told where it differs."""
    own = [*(["-m"] if options.is_module else []), options.script, *options.arguments]
    sides = {"as it is": [sys.executable, *own], "compiled": [sys.executable, "-m", "jit", "run", *own]}
    environment = {name: value for name, value in os.environ.items() if name != "JIT_AUTO"}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    outputs: dict[str, bytes] = {}
    for _ in range(max(options.rounds, 1)):
        for side, command in sides.items():
            start = time.perf_counter()
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
            seconds[side].append(time.perf_counter() - start)
            outputs[side] = done.stdout
            if done.returncode != 0:
                sys.stdout.buffer.write(done.stdout)
                print(f"framejit: {side}, the script ends with status {done.returncode}", file=sys.stderr)
                return 1
    plain, compiled = (statistics.median(times) for times in seconds.values())
    print(f"as it is {plain:.2f} s, compiled {compiled:.2f} s: {plain / compiled:.2f} times as fast, start-up included")
    if outputs["as it is"] != outputs["compiled"]:
        print("the two printed different things (times, addresses or random numbers, perhaps)")
    return 0


def _cache(options: argparse.Namespace) -> int:
    info = cache.info()
    if options.action == "clear":
        cache.clear()
        print(f"{info.entries} entries removed, {info.bytes / 1e6:.1f} MB")
        return 0
    for entry in cache.entries():
        print(f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(entry.used))}  {entry.bytes:>10}  {entry.key}")
    print(f"{info.path or 'nothing is kept'}: {info.entries} entries, {info.bytes / 1e6:.1f} MB")
    return 0


def _why(options: argparse.Namespace) -> int:
    known = reasons.families()
    if options.name is None:
        for family in known.values():
            print(f"{family.name:<14} {family.title}")
        return 0
    if options.name not in known:
        print(f"framejit: no such name: {options.name!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    family = known[options.name]
    print(f"{family.title}\n\n{family.text}\n\nThis breaks:\n\n{indent(family.breaks, '    ')}\nThis does not:\n")
    print(indent(family.mended, "    "))
    return 0


def _doctor(options: argparse.Namespace) -> int:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, show_header=False, pad_edge=False)
    found = list(doctor.findings())
    for one in found:
        table.add_row(one.what, f"[{STYLES[one.state]}]{one.state}[/]", one.detail.replace("[", r"\["))
        if one.mend:
            table.add_row("", "", f"-> {one.mend}".replace("[", r"\["))
    console.print(table)
    return int(any(one.state == "broken" for one in found))


if __name__ == "__main__":
    sys.exit(main())
