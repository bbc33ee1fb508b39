"""The OpenAPI document: every address, what it takes and what it gives."""

from __future__ import annotations

from functools import cache
from typing import Any

from groundling import __version__
from groundling.formats import FORMATS
from groundling.serve.requests import (
    DECODING,
    FORMAT_AUTO,
    LONGEST_ID,
    LONGEST_PHRASE,
    MOST_FRAMES,
    MOST_WORDS,
    Option,
)
from groundling.serve.search import MOST
from groundling.serve.settings import Limits

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
INTEGER: Json = {"type": "integer"}
FLAG: Json = {"type": "boolean"}
PAIR: Json = {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}
SPAN = PAIR | {"description": "characters: from, to"}
BOX: Json = {"$ref": "#/components/schemas/Box"}

LIMITS = Limits()
SENTENCE = TEXT | {"maxLength": LIMITS.sentence}
PHRASE = TEXT | {"maxLength": LONGEST_PHRASE}


def _whole(low: int, high: int, description: str) -> Json:
    return {"type": "integer", "minimum": low, "maximum": high, "description": description}


def _decoding() -> Json:
    """Name -> schema: how the words of a caption are chosen."""
    return {name: _option(option) for name, option in DECODING.items()} | {
        "sample": FLAG | {"description": "draw words at random instead"}
    }


def _option(option: Option) -> Json:
    about = {"description": option.about}
    if option.flag:
        return FLAG | about
    return {"type": "integer" if option.whole else "number", "minimum": option.low, "maximum": option.high} | about


OPERATIONS: dict[str, tuple[str, str, Json, str]] = {  # name -> summary, description, fields, schema of the response
    "caption": (
        "Caption an image or a clip",
        "A sentence; each of its nouns with a box, how sure the model is of the box (score), and how likely the thing "
        "is in the image at all (evidence; weak below 0.65).",
        _decoding(),
        "Caption",
    ),
    "ground": (
        "Find phrases in an image",
        "Each noun phrase of a sentence, or each of the phrases given, with its box and its evidence; found is false "
        "below 0.5. In the query of a URL, phrases are separated by semicolons.",
        {
            "sentence": SENTENCE,
            "phrases": {"type": "array", "items": PHRASE, "maxItems": LIMITS.phrases},
        },
        "Grounding",
    ),
    "audit": (
        "Audit a text about an image",
        "A verdict for every noun phrase of a text, such as the answer of a vision-language model: grounded, wrong "
        "place, not there, cannot tell. The verdicts are those of the command groundling audit. Boxes that came "
        "with it, in the text (format) or beside it (boxes), are compared with the boxes that the grounder finds.",
        {
            "text": SENTENCE,
            "format": {
                "type": "string",
                "enum": [FORMAT_AUTO, *FORMATS],
                "description": f"of the text (plain); auto recognises it by its marks: {', '.join(FORMATS)}",
            },
            "resized": {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 2,
                "maxItems": 2,
                "description": "qwen2.5-vl: width and height at which the model saw the image; 1036x728 in a query",
            },
            "boxes": {
                "type": "array",
                "maxItems": LIMITS.phrases,
                "items": {
                    "type": "object",
                    "required": ["phrase", "box"],
                    "properties": {"phrase": PHRASE, "box": BOX},
                },
            },
        },
        "Audit",
    ),
    "regions": (
        "Regions of an image",
        "The regions of an image, each with the words that fit it and what the detector takes it for. With box, that "
        "box alone, whatever the regions are: what is this? It needs the image itself, not its image_id.",
        {
            "words": _whole(0, MOST_WORDS, "for each region (5)"),
            "box": BOX,
            "frame": _whole(0, MOST_FRAMES - 1, "of a clip, for box (0)"),
        },
        "Regions",
    ),
}


@cache
def document() -> Json:
    paths: Json = {}
    for name, about in OPERATIONS.items():
        paths[f"/v1/{name}"] = {"post": _single(name, *about)}
        paths[f"/v1/batch/{name}"] = {"post": _batch(name, about[0])}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groundling",
            "version": __version__,
            "description": "Captions that point. Images go in as raw bytes or as base64 in JSON; errors are problem "
            "details (RFC 9457) whose detail says what to do. 503 with Retry-After means: try again.",
        },
        "security": [{}, {"token": []}],
        "paths": paths | _others(),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _single(name: str, summary: str, description: str, fields: Json, response: str) -> Json:
    raw = {"schema": {"type": "string", "format": "binary"}}
    in_address = {key: schema for key, schema in fields.items() if key != "boxes"}
    body = {
        "required": True,
        "content": {
            "image/*": raw,
            "video/*": raw,
            "application/json": {"schema": _request(fields)},
        },
    }
    return {
        "operationId": name,
        "summary": summary,
        "description": description,
        "parameters": [
            {"name": key, "in": "query", "schema": schema, "description": "with a raw body"}
            for key, schema in in_address.items()
        ],
        "requestBody": body,
        "responses": {"200": _json("The response", _ref(response)), **_problems()},
    }


def _batch(name: str, summary: str) -> Json:
    lines = {"application/x-ndjson": {"schema": TEXT}}
    return {
        "operationId": f"batch_{name}",
        "summary": f"{summary}: many at once",
        "description": f"Every line is the JSON of a request to /v1/{name}; every line of the response has its "
        "number (line), its id, and the response or a problem, in the same order, as soon as it is known. Read the "
        "response while you send.",
        "requestBody": {"required": True, "content": lines},
        "responses": {"200": {"description": "One line per line", "content": lines}, **_problems()},
    }


def _request(fields: Json) -> Json:
    picture = {
        "image": TEXT | {"contentEncoding": "base64", "description": "or clip, or image_id"},
        "clip": TEXT | {"contentEncoding": "base64", "description": "a video file"},
        "frames": _whole(1, MOST_FRAMES, f"of the clip ({LIMITS.frames})"),
        "image_id": TEXT | {"description": "image.id of an earlier response, while the server has its regions"},
        "id": TEXT | {"maxLength": LONGEST_ID, "description": "comes back with the response"},
    }
    return {"type": "object", "additionalProperties": False, "properties": picture | fields}


def _others() -> Json:
    image = {"name": "image", "in": "query", "required": True, "schema": TEXT}
    images = {"name": "images", "in": "query", "schema": _whole(1, MOST, "at most (12)")}
    query: list[Json] = [
        {"name": "query", "in": "query", "required": True, "schema": TEXT | {"maxLength": 500}},
        images,
    ]
    file = {"description": "The file", "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
    text = {"description": "Text", "content": {"text/plain": {"schema": TEXT}}}
    decision = {
        "required": True,
        "content": {"application/json": {"schema": _ref("Decision")}},
    }
    return {
        "/v1/about": {"get": _get("about", "Version and limits", _json("About", _ref("About")))},
        "/v1/search": {
            "get": _get("search", "Find labelled photos by what they show", _json("Hits", _ref("Hits")), query)
        },
        "/v1/search/file": {"get": _get("hit", "One photo of the index", file, [image])},
        "/v1/review/picture": {"get": _get("picture", "A photo whose labels are reviewed", file, [image])},
        "/v1/review": {
            "get": _get(
                "review", "The labels to review, and what was decided", _json("Labels and decisions", _ref("Review"))
            ),
            "post": {
                "operationId": "decide",
                "summary": "Decide about a label",
                "description": "The decision is on the disk when the response comes. The last one of a label counts.",
                "requestBody": decision,
                "responses": {"201": _json("Accepted", _object(decisions=INTEGER)), **_problems()},
            },
        },
        "/healthz": {"get": _get("healthz", "Is the server running?", _json("It is", _object(status=TEXT)))},
        "/readyz": {"get": _get("readyz", "Are the models loaded?", _json("They are", _object(status=TEXT)))},
        "/metrics": {"get": _get("metrics", "Numbers for Prometheus", text)},
    }


def _get(name: str, summary: str, response: Json, parameters: list[Json] | None = None) -> Json:
    about: Json = {"operationId": name, "summary": summary, "responses": {"200": response, **_problems()}}
    return about | ({"parameters": parameters} if parameters else {})


def _json(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _problems() -> Json:
    content = {"application/problem+json": {"schema": _ref("Problem")}}
    texts = {
        "4XX": "What is wrong with the request, and the cure",
        "503": "Busy, or not ready: try again (Retry-After)",
    }
    return {status: {"description": text, "content": content} for status, text in texts.items()}


def _schemas() -> Json:
    evidence = {"type": ["number", "null"], "description": "probability of being in the image at all"}
    image = _object(id=TEXT, width=INTEGER, height=INTEGER)
    image["properties"] |= {"frames": INTEGER | {"description": "of a clip"}}
    about = {"image": _ref("Image")}
    below = {
        "type": ["number", "null"],
        "description": "evidence below which a phrase is not there; null: the grounder has none",
    }
    similarity = {"type": "number", "description": "cosine of word and region, at most 1; no probability"}
    word, label = _object(word=TEXT, similarity=similarity), _object(label=TEXT, score=NUMBER)
    region = _object(box=BOX, frame=INTEGER, words=_list(word), labels=_list(label))
    limits = _object(bytes=INTEGER, pixels=INTEGER, sentence=INTEGER)
    counts = {"type": "object", "additionalProperties": INTEGER}
    audit = _object(**about, text=TEXT, format=TEXT, phrases=_list(_audited(evidence)), counts=counts)
    audit["properties"] |= {"problems": _list(_object(reason=TEXT, piece=TEXT))}
    return {
        "Box": {"type": "array", "items": NUMBER, "minItems": 4, "maxItems": 4, "description": "x1, y1, x2, y2 pixels"},
        "Image": image,
        "Caption": _captioned(about, evidence),
        "Grounding": _object(**about, sentence=TEXT, phrases=_list(_grounded(evidence)), not_there_below=below),
        "Audit": audit,
        "Regions": _object(**about, regions=_list(region)),
        "About": _object(
            version=TEXT,
            ready=FLAG,
            examples=_list(TEXT),
            formats=_list(TEXT),
            review=FLAG,
            search=FLAG,
            limits=limits,
        ),
        "Hits": _object(query=TEXT, hits=_list(_hit())),
        "Review": _object(rows=_list(_labelled()), decisions=_list(_ref("Decision"))),
        "Decision": _decision(),
        "Problem": _object(type=TEXT, title=TEXT, status=INTEGER, detail=TEXT),
    }


def _captioned(about: Json, evidence: Json) -> Json:
    link = _object(
        token=INTEGER, word=TEXT, span=SPAN, box=BOX, frame=INTEGER, score=NUMBER, evidence=evidence, weak=FLAG
    )
    link["properties"] |= {"source": TEXT | {"description": "of a word that is not the captioner's: image classes"}}
    attention = _object(token=INTEGER, boxes=_list(BOX), weights=_list(NUMBER), frames=_list(INTEGER))
    caption = _object(**about, caption=TEXT, tokens=_list(TEXT), spans=_list(SPAN), links=_list(link), size=PAIR)
    caption["properties"] |= {
        "attention": _list(attention) | {"description": "the regions that each token attends to most"},
        "logp": NUMBER | {"description": "log probability of the caption"},
        "frames": INTEGER | {"description": "of a clip"},
    }
    return caption


def _grounded(evidence: Json) -> Json:
    phrase = _object(phrase=TEXT, span=SPAN, box=BOX, score=NUMBER, found=FLAG, unknown=_list(TEXT), evidence=evidence)
    result = {"type": "string", "enum": ["found", "not found", "unknown"]}
    phrase["properties"] |= {"result": result, "head": TEXT, "frame": INTEGER}
    return phrase


def _hit() -> Json:
    match = _object(query=TEXT, phrase=TEXT, box=BOX, score=NUMBER)
    return _object(image=TEXT, size=PAIR, score=NUMBER, boxes=_list(match))


def _labelled() -> Json:
    mention = {"type": "array", "items": INTEGER, "description": "caption, from, to"}
    where: Json = {"image": TEXT, "label": INTEGER, "size": PAIR, "phrase": TEXT, "boxes": _list(BOX)}
    return _object(**where, confidence=NUMBER, captions=_list(TEXT), mentions=_list(mention))


def _decision() -> Json:
    actions = {"type": "string", "enum": ["accept", "reject", "redraw", "relabel", "undo"]}
    decision = _object(image=TEXT, label=INTEGER, action=actions)
    decision["properties"] |= {"boxes": _list(BOX), "phrase": TEXT}
    return decision


def _audited(evidence: Json) -> Json:
    verdict = {"type": "string", "enum": ["grounded", "wrong place", "not there", "cannot tell"]}
    likely = _object(box=BOX, score=NUMBER)
    row = _object(phrase=TEXT, span=SPAN, noun=TEXT, lemma=TEXT, verdict=verdict, likely=_list(likely))
    given = _object(boxes=_list(BOX), points=_list({"type": "array", "items": NUMBER}), overlap=NUMBER)
    row["properties"] |= {
        "evidence": evidence,
        "box": {"type": ["array", "null"], "items": NUMBER, "description": "its likeliest box, if it is there"},
        "asked": TEXT | {"description": "the known word that stood in for the noun"},
        "how": TEXT | {"description": "its relation to the noun: a synonym, a broader kind"},
        "reason": TEXT | {"description": "why the verdict is cannot tell"},
        "colour": _object(word=TEXT, verdict=TEXT, probability=NUMBER)
        | {"description": "whether a thing that is there has the colour that the text gives it"},
        "given": given | {"description": "the boxes or points that came with the text"},
        "frame": {"type": "integer"},
    }
    return row


def _object(**properties: Json) -> Json:
    return {"type": "object", "required": list(properties), "properties": properties}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}
