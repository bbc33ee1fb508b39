"""Singular nouns as CHAIR sees them: the guesses of the Pattern library, mistakes included.

CHAIR's published numbers rest on them ("bus" -> "bu", so that a bus is never found; "ties" -> "ty"), so they are kept.
For real lemmas see `morphology`.
"""

from __future__ import annotations

import re
from functools import cache

# A word is left alone if one of these *ends with it*: "scissors", but also "as" (christmas) and "is" (chassis).
_ALONE = (
    "advice bison bread bream breeches britches butter carp chassis cheese christmas clippers cod contretemps corps "
    "debris diabetes djinn eland electricity elk equipment flounder fruit furniture gallows garbage georgia graffiti "
    "gravel happiness headquarters herpes high-jinks homework information innings jackanapes ketchup knowledge love "
    "luggage mackerel mathematics mayonnaise measles meat mews mumps mustard news pincers pliers proceedings progress "
    "rabies research rice salmon sand scissors series shears software species swine swiss trout tuna understanding "
    "whiting "
)

# Words in -ie: their plurals (cookies) are left alone too.
_IE = (
    "alergie auntie beanie birdie bombie collie cookie cutie doggie eyrie freebie goonie groupie hankie hippie hoagie "
    "hottie indie junkie laddie laramie lingerie meanie newbie nightie oldie pixie quickie reverie rookie softie "
    "sortie stoolie sweetie techie toughie valkyrie veggie weenie yuppie "
)

_IRREGULAR = {  # endings: "women", but also "four" -> "fmy"
    "atlantes": "atlas", "atlases": "atlas", "axes": "axe", "beeves": "beef", "brethren": "brother",
    "children": "child", "corpora": "corpus", "corpuses": "corpus", "ephemerides": "ephemeris", "feet": "foot",
    "ganglia": "ganglion", "geese": "goose", "genera": "genus", "genii": "genie", "helves": "helve", "kine": "cow",
    "leaves": "leaf", "loaves": "loaf", "men": "man", "mongooses": "mongoose", "monies": "money", "moves": "move",
    "mythoi": "mythos", "numena": "numen", "occipita": "occiput", "octopodes": "octopus", "opera": "opus",
    "opuses": "opus", "our": "my", "oxen": "ox", "penes": "penis", "penises": "penis", "people": "person",
    "sexes": "sex", "soliloquies": "soliloquy", "teeth": "tooth", "testes": "testis", "trilbys": "trilby",
    "turves": "turf", "zoa": "zoon",
}  # fmt: skip

_ENDINGS = [  # the first that fits: pattern (kept part) rest -> kept part + replacement
    (re.compile(f"(.*{kept}){rest}"), replacement)
    for kept, rest, replacement in (
        (".a", "e", ""),
        (".itis", "", ""),
        (".eau", "x", ""),
        ("quiz", "zes", ""),
        ("matr", "ices", "ix"),
        ("(?:ap|vert|ind)", "ices", "ex"),
        ("(?:alias|status)", "es", ""),
        ("[octpvir|]", "i", "us"),  # graffiti-like plurals, and "safari"
        ("(?:cris|ax|test)", "es", "is"),
        ("shoe", "s", ""),
        ("o", "es", ""),
        ("bus", "es", ""),
        ("[ml|]", "ice", "ouse"),  # "mice", and "slice"
        ("(?:x|ch|ss|sh)", "es", ""),
        ("movie", "s", ""),
        (".ombie", "s", ""),
        ("series", "", ""),
        ("(?:[^aeiouy]|qu)", "ies", "y"),
        ("[aeo]l", "ves", "f"),
        ("[^d]ea", "ves", "f"),
        ("ar", "ves", "f"),
        ("er", "ves", "ve"),
        ("[nlw]i", "ves", "fe"),
        ("[lr]", "ves", "f"),
        ("[aeo]", "ves", "ve"),
        ("[sth]ive", "s", ""),
        ("[^f]", "ves", "fe"),
        ("(?:^analy|ba|diagno|parenthe|progno|synop|the)", "ses", "sis"),
        ("analy", "ses", "asis"),
        (".op", "ses", "sis"),
        (".y", "ses", "sis"),
        ("(?:h|d|r|o|n|b|cl|p)ose", "s", ""),
        (".o", "ses", "sis"),
        ("[ti]", "a", "um"),
        ("news", "", ""),
        ("", "s", ""),
    )
]

_PREPOSITIONS = (
    "about above across after among around at athwart before behind below beneath beside besides between betwixt "
    "beyond but by during except for from in into near of off on onto out over since till to under until unto upon "
    "with "
)


@cache
def singular(word: str) -> str:
    """The singular of a lower-cased word."""
    first, *others = word.split("-")
    if others and others[0] in _PREPOSITIONS.split():  # mothers-in-law
        return "-".join([singular(first), *others])
    if word.endswith("'"):
        return f"{singular(word[:-1])}'s"
    if any(other.endswith(word) for other in _ALONE.split()) or any(word.endswith(f"{ie}s") for ie in _IE.split()):
        return word
    for ending, replacement in _IRREGULAR.items():
        if word.endswith(ending):
            return word.removesuffix(ending) + replacement
    for pattern, replacement in _ENDINGS:
        if match := pattern.fullmatch(word):
            return match[1] + replacement
    return word
