"""The reference page, made from the OpenAPI document."""

from __future__ import annotations

from html import escape
from typing import Any

Json = dict[str, Any]


def page(document: Json) -> str:
    """One HTML page without scripts."""
    info = document["info"]
    parts = [
        _operation(path, method, operation, document)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    links = "".join(
        f'<li><a href="#{o["operationId"]}">{method.upper()} {escape(path)}</a>: {escape(o["summary"])}</li>'
        for path, method, o in _operations(document)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} API</title>"
        '<link rel="icon" href="/icon.svg"><link rel="stylesheet" href="/page.css"></head><body class="reference">'
        f'<header><h1><a href="/"><img src="/icon.svg" alt="" width="28" height="28"> {escape(info["title"])}</a></h1>'
        f'<span class="help">API, version {escape(info["version"])}</span><span class="grow"></span>'
        '<a href="/">Photos</a> <a href="/openapi.json">OpenAPI document</a></header><main>'
        f"<p>{escape(info['description'])}</p><nav aria-label='Endpoints'><ul>{links}</ul></nav>{''.join(parts)}"
        "</main></body></html>"
    )


def _operations(document: Json) -> list[tuple[str, str, Json]]:
    return [(path, method, o) for path, item in document["paths"].items() for method, o in item.items()]


def _operation(path: str, method: str, operation: Json, document: Json) -> str:
    out = [
        f'<section class="card" id="{escape(operation["operationId"])}">'
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p><b>{escape(operation['summary'])}</b><br>"
        f"{escape(operation.get('description', ''))}</p>"
    ]
    if line := _curl(path, method, operation):
        out.append(f"<pre><code>{escape(line)}</code></pre>")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(content["schema"], document)
        if "properties" in schema:
            out.append(f"<h3>Request, {escape(kind)}</h3>{_fields(schema, document)}")
    if rows := operation.get("parameters"):
        names = ", ".join(f"<code>{escape(row['name'])}</code>" for row in rows)
        raw = ", with a raw body" if "requestBody" in operation else ""
        out.append(f"<p>In the query of the URL{raw}: {names}</p>")
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            schema = _resolved(content["schema"], document)
            if status.startswith("2") and "properties" in schema:
                out.append(f"<h3>Response {status}, {escape(kind)}</h3>{_fields(schema, document)}")
    return "".join(out) + "</section>"


def _curl(path: str, method: str, operation: Json) -> str:
    kinds = operation.get("requestBody", {}).get("content", {})
    if "image/*" in kinds:
        query = {"ground": "?sentence=a+dog+on+grass", "audit": "?text=a+dog+and+a+cat"}
        where = f"http://127.0.0.1:8000{path}{query.get(operation['operationId'], '')}"
        return f"curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg '{where}'"
    if "application/x-ndjson" in kinds:
        return f"curl -NT lines.jsonl -X POST -H 'Content-Type: application/x-ndjson' http://127.0.0.1:8000{path}"
    return f"curl http://127.0.0.1:8000{path}" if method == "get" and "parameters" not in operation else ""


def _fields(schema: Json, document: Json) -> str:
    rows = []
    for name, field in schema["properties"].items():
        field = _resolved(field, document)
        meaning = ". ".join(filter(None, (escape(field.get("description", "")), _range(field))))
        rows.append(
            f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field, document))}</td><td>{meaning}</td></tr>"
        )
    return f'<div class="scroll"><table><tr><th>field<th>type<th>meaning</tr>{"".join(rows)}</table></div>'


def _range(field: Json) -> str:
    if "enum" in field:
        return escape(", ".join(field["enum"]))
    return f"{field['minimum']:,} to {field['maximum']:,}" if {"minimum", "maximum"} <= set(field) else ""


def _type(field: Json, document: Json) -> str:
    field = _resolved(field, document)
    kind = field.get("type", "any")
    if kind == "array":
        inner = _resolved(field["items"], document)
        names = f" with {', '.join(inner['properties'])}" if "properties" in inner else ""
        return f"list of {inner.get('type', 'any')}{names}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _resolved(schema: Json, document: Json) -> Json:
    if "$ref" not in schema:
        return schema
    resolved: Json = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return resolved
