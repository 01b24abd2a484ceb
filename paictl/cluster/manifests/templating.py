"""Templates → objects: strict, and with the file and line of whatever is wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

import yaml

from paictl.errors import PaictlError
from paictl.frozen import frozen

SUFFIX: Final = ".yaml.j2"
_WIDE: Final = 1 << 30
"""Characters of a line that YAML may write: it must not fold."""


class TemplateError(PaictlError):
    """A template cannot be rendered, or what it renders to is no object; `where` is the file and line."""


@frozen
class Manifest:
    """An object as a template says it, and the file that says so."""

    body: dict[str, Any]
    source: str

    @property
    def kind(self) -> str:
        """``Deployment``."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def api_version(self) -> str:
        """``apps/v1``."""
        return str(self.body["apiVersion"])


def render_folder(folder: Path, context: Mapping[str, Any]) -> list[Manifest]:
    """The objects of all templates of a folder, in the order of their file names and places.

    A file whose name begins with ``_`` is rendered only where another includes it. Raises `TemplateError`.
    """
    environment = _environment(folder)
    names = sorted(path.name for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith("_"))
    return [manifest for name in names for manifest in _manifests(folder / name, environment, context)]


@cache
def _environment(folder: Path) -> Any:
    """What compiles the templates of a folder: once, since a service is rendered with and without secrets."""
    try:
        import jinja2  # late: most commands render nothing, and it comes with an extra
    except ModuleNotFoundError:
        raise PaictlError(
            "the library for templates is not installed (jinja2)", hint="install it: pip install 'paictl[k8s]'"
        ) from None
    environment = jinja2.Environment(  # noqa: S701 - YAML, which has its own quotes
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(to_yaml=_to_yaml, b64encode=_b64encode, quote=_quote)
    environment.globals["fail"] = _fail
    return environment


def _manifests(path: Path, environment: Any, context: Mapping[str, Any]) -> Iterator[Manifest]:
    import jinja2

    try:
        rendered = environment.get_template(path.name).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            error.message or "is not a template", where=f"{error.filename or path}:{error.lineno}"
        ) from None
    except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        message = str(error) or type(error).__name__
        hint = "a key that may be missing belongs in defaults.yaml, or must be read with .get()"
        raise TemplateError(message, where=_place(path, error.__traceback__), hint=hint) from None
    yield from _documents(path, rendered)


def _place(path: Path, trace: TracebackType | None) -> str:
    """The innermost line of a template in a traceback; Jinja2 puts its own lines there."""
    place = str(path)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).parent == path.parent:
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _documents(path: Path, rendered: str) -> Iterator[Manifest]:
    loader = _Loader(rendered)
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            body = loader.construct_document(node)
            if body is not None:
                if wrong := _fault(body):  # only then: to look for the line takes longer than to render
                    raise TemplateError(wrong, where=_near(path, rendered, node.start_mark.line))
                yield Manifest(body, str(path))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = _near(path, rendered, mark.line if mark else 0)
        raise TemplateError(f"renders to broken YAML: {error.problem or error}", where=where) from None
    except yaml.YAMLError as error:
        raise TemplateError(f"renders to broken YAML: {' '.join(str(error).split())}", where=str(path)) from None
    finally:
        loader.dispose()


def _fault(body: object) -> str:
    """What is wrong with something that Kubernetes could not even look at; empty for an object with kind and name."""
    if not isinstance(body, dict):
        return "does not render to an object"
    about = body.get("metadata")
    missing = [key for key in ("apiVersion", "kind") if not isinstance(body.get(key), str)]
    if not isinstance(about, dict) or not isinstance(about.get("name"), str):
        missing.append("metadata.name")
    return f"renders to an object without {', '.join(missing)}" if missing else ""


def _near(path: Path, rendered: str, number: int) -> str:
    """The line of the template behind a line (from 0) of what it renders to, as lines that stayed the same tell."""
    lines, written = rendered.splitlines(), path.read_text(encoding="utf-8").splitlines()
    at = 0
    for block in SequenceMatcher(None, written, lines, autojunk=False).get_matching_blocks():
        if block.size and block.b <= number:
            at = block.a + number - block.b
    return f"{path}:{min(at, len(written) - 1) + 1}"


_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_FastLoader):  # type: ignore[misc]
    """Dates stay text, as Kubernetes wants them; a key that is there twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping of values; raises `ConstructorError` for a key that is there twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
                seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Nothing shared: an alias would be an alias of another place."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - whatever it is
        return True


def _to_yaml(value: Any) -> str:
    """A value as a block of YAML without a line end behind it."""
    dumped = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=_WIDE
    )
    return dumped.removesuffix("\n...\n").removesuffix("\n")


def _quote(value: Any) -> str:
    """A value as a text in double quotes, whatever is in it."""
    return str(yaml.dump(str(value), Dumper=_Dumper, default_style='"', allow_unicode=True, width=_WIDE)).strip()


def _b64encode(value: Any) -> str:
    data = value if isinstance(value, bytes) else str(value).encode()
    return base64.b64encode(data).decode()


def _fail(message: str) -> NoReturn:
    """For templates: refuse a configuration that cannot work."""
    raise ValueError(message)
