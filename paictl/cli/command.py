"""The kinds of commands and groups that paictl is built of: every module of a command group makes an `App`.

Beside what typer does: groups that are loaded when they are needed, global options that may stand anywhere, help that
leads with examples, defaults from the configuration file, and an answer for words that people know from other tools.
"""

# Annotations are no texts here: every command needs these options, and typer would compile each text four times.

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_name
from typer.models import CommandInfo

from paictl.cli import console, helptext, interrupts
from paictl.cli.console import Output
from paictl.cli.names import clusters
from paictl.cli.settings import settings
from paictl.cli.synonyms import SYNONYMS
from paictl.cli.userconfig import defaults_for
from paictl.cli.values import choices_of, kind_of, make_plain
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.suggestions import nearest

LONG = 5.0
"""Seconds after which a terminal shows how long a command took."""


class Lazy(NamedTuple):
    """A command, or a group of them, in a module that is loaded when it is needed.

    The `app` of the module is meant, or with `within` the command of that name in it.
    """

    module: str
    help: str
    hidden: bool = False
    within: bool = False


def _verbose(value: int) -> None:
    settings.verbosity = value or settings.verbosity


def _quiet(value: bool) -> None:
    settings.verbosity = -1 if value else settings.verbosity


def _debug(value: bool) -> None:
    settings.debug = value or settings.debug


def _no_color(value: bool) -> None:
    settings.color = False if value else settings.color


def _no_input(value: bool) -> None:
    settings.interactive = settings.interactive and not value


def _globals(
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            expose_value=False,
            callback=_verbose,
            show_default=False,
            help="Report on stderr each step and how long it took.",
        ),
    ] = 0,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            expose_value=False,
            callback=_quiet,
            help="Write only errors to stderr.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            expose_value=False,
            callback=_debug,
            help="Show the traceback of an internal error.",
        ),
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", expose_value=False, callback=_no_color, help="No colors (as with NO_COLOR=1).")
    ] = False,
    no_input: Annotated[
        bool,
        typer.Option(
            "--no-input",
            expose_value=False,
            callback=_no_input,
            help="Never prompt; fail if an answer is needed.",
        ),
    ] = False,
) -> None:
    """Hold the options that every command takes."""


def _options_of(holder: Callable[..., None]) -> tuple[Any, ...]:
    """The options that are the parameters of a function, for commands of other functions."""
    app = typer.Typer(add_completion=False)
    app.command()(holder)
    options = tuple(typer.main.get_command(app).params)
    for option in options:
        make_plain(option)
    return options


@cache
def global_options() -> tuple[Any, ...]:
    """The options that may stand behind any word of a command line."""
    return _options_of(_globals)


def _cluster(name: str | None) -> None:
    settings.cluster = name or settings.cluster


@cache
def _cluster_option() -> Any:
    """The option that says which cluster a command is about."""

    def held(
        cluster: Annotated[
            str | None,
            typer.Option(
                "--cluster",
                metavar="NAME",
                expose_value=False,
                callback=_cluster,
                autocompletion=clusters,
                help="Which cluster (default: PAICTL_CLUSTER, else: paictl cluster use).",
            ),
        ] = None,
    ) -> None:
        """Hold the option."""

    return _options_of(held)[0]


@cache
def _short_form() -> Any:
    """The option for the form of the result."""

    def held(
        form: Annotated[
            Output | None,
            typer.Option("--output", "-o", expose_value=False, callback=_capture, help="Output format."),
        ] = None,
    ) -> None:
        """Hold the option."""

    return _with_kind(_options_of(held)[0])


@cache
def _long_form() -> Any:
    """The same where ``-o`` names a file or folder."""

    def held(
        form: Annotated[
            Output | None, typer.Option("--format", expose_value=False, callback=_capture, help="Output format.")
        ] = None,
    ) -> None:
        """Hold the option."""

    return _with_kind(_options_of(held)[0])


def _with_kind(option: Any) -> Any:
    option.metavar = kind_of(option)
    return option


def _capture(form: Output | None) -> None:
    console.take_form(form)
    console.capture()


def _form_option(params: Sequence[Any]) -> list[Any]:
    """What lets a command without data of its own answer programs: a command that has some says so itself."""
    spellings = {name for param in params for name in param.opts}
    if not spellings & {"-o", "--output", "--format"}:
        return [_short_form()]
    if "--format" not in spellings and not any(choices_of(param) for param in params if "-o" in param.opts):
        return [_long_form()]
    return []


def without_globals(words: Sequence[str]) -> list[str]:
    """A command line without the options that every command takes: what the user wanted done."""
    names = {name for option in global_options() for name in option.opts}
    end = list(words).index("--") if "--" in words else len(words)
    return [word for word in words[:end] if word not in names and set(word) != {"-", "v"}] + list(words[end:])


class Command(TyperCommand):
    """A command that reads plain values quickly and takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            make_plain(param)
            if param.param_type_name == "option" and param.metavar is None:
                param.metavar = kind_of(param)
        named = [_cluster_option()] if any("--state" in param.opts for param in self.params) else []
        self.params = [*self.params, *named, *_form_option(self.params), *global_options()]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of a call, with the defaults that the user has set."""
        if parent is not None:
            path = [*parent.command_path.split()[1:], info_name or ""]
            extra.setdefault("default_map", defaults_for(path, self.params))
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command: from here on, Ctrl-C lets it clean up."""
        begun = time.monotonic()
        source = ctx.get_parameter_source("state")
        settings.state_given = source is not None and source.name == "COMMANDLINE"
        try:
            with interrupts.working():
                return super().invoke(ctx)
        finally:
            seconds = time.monotonic() - begun
            message = text("the command took {seconds} s", seconds=f"{seconds:.1f}")
            if seconds > LONG and sys.stderr.isatty():
                console.info(message)
            else:
                console.detail(message)

    def get_help_option(self, ctx: Any) -> Any:
        """The option ``--help``."""
        option = super().get_help_option(ctx)
        make_plain(option)
        return option

    def get_help(self, ctx: Any) -> str:
        """The help page, in characters that the terminal has."""
        return helptext.for_stream(super().get_help(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line after the command."""
        arguments = (param for param in self.get_params(ctx) if param.param_type_name == "argument")
        return ["[OPTIONS]", *map(helptext.argument_word, arguments)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        helptext.write(self, ctx, formatter, hidden=global_options())


class LazyGroup(TyperGroup):
    """A group of commands; those of `lazy` are loaded when they are needed."""

    lazy: ClassVar[Mapping[str, Lazy]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.unbuilt: dict[str, CommandInfo] = {}
        """What typer makes commands of when they are needed: ten signatures take longer to read than most commands."""
        for param in self.params:
            make_plain(param)
        self.params = [*self.params, *global_options()]

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of help."""
        return list(dict.fromkeys([*self.lazy, *self.unbuilt, *super().list_commands(ctx)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; None if it does not exist."""
        if cmd_name not in self.commands:
            if cmd_name in self.lazy:
                app: App = importlib.import_module(self.lazy[cmd_name].module).app
                command = app.built(cmd_name if self.lazy[cmd_name].within else None)
                command.name, command.hidden = cmd_name, self.lazy[cmd_name].hidden
                self.commands[cmd_name] = command
            elif cmd_name in self.unbuilt:
                self.commands[cmd_name] = built(self.unbuilt[cmd_name])
        return super().get_command(ctx, cmd_name)

    def summaries(self, ctx: Any) -> Iterator[tuple[str, str]]:
        """The commands that help shows, each with what it does in a line; nothing is loaded for it."""
        for name in self.list_commands(ctx):
            if name in self.lazy:
                if not self.lazy[name].hidden:
                    yield name, self.lazy[name].help
            elif not (command := self.get_command(ctx, name)).hidden:
                yield name, command.get_short_help_str(200)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, and its words; raises `PaictlError` with what was most likely meant."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or ctx.resilient_parsing:
            return name, self.get_command(ctx, name), args[1:]
        if name == "help":
            return self._help(ctx, args[1:])
        raise self._unknown(ctx, name, known)

    def _help(self, ctx: Any, words: list[str]) -> Any:
        """`paictl help job submit` is `paictl job submit --help`."""
        if words:
            name, command, rest = self.resolve_command(ctx, words)
            return name, command, [*rest, "--help"]
        typer.echo(ctx.get_help())
        raise typer.Exit

    def _unknown(self, ctx: Any, name: str, known: list[str]) -> PaictlError:
        path = ctx.command_path
        if name.startswith("-"):
            self.parse_args(ctx, [name])  # which says that there is no such option
        synonym = SYNONYMS.get(f"{path} {name}".partition(" ")[2])
        near = nearest(name, known, 0.6)
        if synonym:
            hint = text("use: {command}", command=synonym)
        elif near:
            hint = text("did you mean {near!r}? {path} -h shows all", near=near, path=path)
        else:
            hint = text("{path} -h shows all", path=path)
        return PaictlError(text("no command {name!r} in {path}", name=name, path=path), hint=hint)

    def get_help_option(self, ctx: Any) -> Any:
        """The option ``--help``."""
        option = super().get_help_option(ctx)
        make_plain(option)
        return option

    def get_help(self, ctx: Any) -> str:
        """The help page, in characters that the terminal has."""
        return helptext.for_stream(super().get_help(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        hidden = global_options() if ctx.parent is not None else ()
        helptext.write(self, ctx, formatter, hidden=hidden, commands=list(self.summaries(ctx)))


class App(typer.Typer):
    """A typer application whose commands and groups are ours."""

    def __init__(
        self, *, lazy: Mapping[str, Lazy] | None = None, cls: type[LazyGroup] = LazyGroup, **options: Any
    ) -> None:
        if lazy is not None:
            cls = type(cls.__name__, (cls,), {"lazy": lazy})
        options.setdefault("no_args_is_help", True)
        super().__init__(cls=cls, add_completion=False, pretty_exceptions_enable=False, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Make a function a command; `epilog` holds examples, one a line, and notes."""
        options.setdefault("cls", Command)
        return super().command(name, **options)

    def built(self, name: str | None) -> Any:
        """The application as a command line has it, its commands unbuilt; with a name, that command of it alone."""
        infos = {
            info.name or get_command_name(info.callback.__name__): info  # type: ignore[union-attr]
            for info in self.registered_commands
        }
        if name is not None:
            return built(infos[name])
        if len(infos) == 1 and self.registered_callback is None:
            return typer.main.get_command(self)  # which is the command itself
        bare = copy(self)
        bare.registered_commands = []
        group = typer.main.get_group(bare)
        if isinstance(group, LazyGroup):
            group.unbuilt = infos
        return group


def built(info: CommandInfo) -> Any:
    """The command that typer makes of a function."""
    app = App()
    app.registered_commands = [info]
    return typer.main.get_command(app)
