"""The description of the API, made from the table of routes: what is served and what is described cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from paictl import __version__
from paictl.server.calls import Answer, Call, json_answer
from paictl.server.routing import Access, Operation, Route

_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_MEANINGS: Final = {
    200: "Done",
    201: "Done",
    202: "Accepted",
    303: "Another page",
    400: "Refused, with the reason",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not there",
    408: "Too slow",
    409: "The name is taken, or another request came first",
    413: "Too large",
    415: "Not of this kind",
    429: "Too many sign-ins failed",
    500: "A bug of paictl",
    501: "Not done here",
    503: "The cluster or one of its services does not answer",
    504: "No answer in time",
}
_ERROR: Final = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "hint": {"type": "string"},
        "problems": {"type": "array", "items": {"type": "object"}, "description": "Findings of the validator."},
    },
}
_ALWAYS: Final = (400, 500, 503, 504)
"""What every route may answer."""


def description(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3.0 of the routes that are no pages."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if not route.page:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {"title": "paictl REST API", "version": __version__, "description": "OpenPAI's REST API v2."},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    operation = route.operation
    words = re.findall(r"[A-Za-z0-9]+", route.path.removeprefix("/api/v2"))
    made: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *words]),
        "tags": [operation.tag],
        "summary": operation.summary,
        "x-who": route.who.value,
        "responses": {str(status): _response(operation, status) for status in sorted(_statuses(route))},
    }
    word = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,255}$"}
    variables = [
        {"name": name, "in": "path", "required": True, "schema": word} for name in _VARIABLE.findall(route.path)
    ]
    query = [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in operation.query.items()]
    if variables or query:
        made["parameters"] = variables + query
    if route.who is not Access.ANYBODY:
        made["security"] = [{"bearerAuth": []}]
    if operation.takes:
        content = {media: {"schema": schema} for media, schema in operation.takes.items()}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _statuses(route: Route) -> set[int]:
    statuses = {*route.operation.answers, *_ALWAYS}
    if route.who is not Access.ANYBODY:
        statuses |= {401, 403}
    if route.reads_body:
        statuses |= {408, 413}
    if route.operation.takes:
        statuses |= {409, 415, 501}
    return statuses


def _response(operation: Operation, status: int) -> dict[str, Any]:
    if status < 300:
        content = {operation.gives: {"schema": {} if operation.gives == "application/json" else {"type": "string"}}}
    else:
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": _MEANINGS[status], "content": content}


def route_of(described: Iterable[Route]) -> Route:
    """The route that gives the description of others."""
    made = description(described)

    def openapi(_call: Call) -> Answer:
        return json_answer(made)

    return Route("GET", "/openapi.json", Access.ANYBODY, openapi, Operation("This description", "info"))
