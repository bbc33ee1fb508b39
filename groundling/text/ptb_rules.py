"""The rules of the Penn Treebank tokenizer: how each kind of token begins, what it reads, what it becomes.

A pattern's first group is the token; what it reads beyond is context. Rules are in order of precedence. They are
matched against a text whose letters, digits and symbols beyond ASCII have been replaced by stand-ins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from groundling.text.ptb_characters import ASTRAL, DIGIT, LETTER, MARK, OTHER, SYMBOL

Tidy = Callable[[str], str]


class Rule(NamedTuple):
    match: Callable[[str, int], re.Match[str] | None]  # at a place of a text
    tidy: Tidy | None  # from the characters read to the token; "" is no token
    run: Callable[[str, int], re.Match[str] | None] | None = None  # where it fails, it fails all through this run


# Characters beyond ASCII that rules mention: curly quotes and dashes, fractions, raised digits, currency, spaces; and
# the places of those in Windows-1252, which texts often carry into the C1 control characters of Unicode.
SPACE = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u3000"
LEFT, RIGHT = "\u0091\u2018\u201b\u2039", "\u0092\u2019\u203a"
LEFT_DOUBLE, RIGHT_DOUBLE = "\u0093\u201c\u00ab", "\u0094\u201d\u00bb"
LOW = "\u201a\u201e\u201f"
DASHES = "\u0096\u0097\u2013\u2014\u2015"
ELLIPSES = "\u0085\u2026"
HYPHENS = "\u058a\u2010\u2011"
POINTS = "\u00ad\u066b\u066c"  # in numbers; the soft hyphen may be in words too
RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
LOWERED = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
SIGNS = "\u207a\u207b\u208a\u208b"
CHANGED = dict(zip("{}[]()", ["-LCB-", "-RCB-", "-LSB-", "-RSB-", "-LRB-", "-RRB-"], strict=True))
CHANGED |= dict(zip("\u00bc\u00bd\u00be\u2153\u2154", ["1/4", "1/2", "3/4", "1/3", "2/3"], strict=True))
CHANGED |= {"\u00a2": "cents", "\u00a3": "#"} | dict.fromkeys("\u0080\u00a4\u20a0\u20ac", "$")
MENTIONED = "".join(
    [SPACE, LEFT, RIGHT, LEFT_DOUBLE, RIGHT_DOUBLE, LOW, DASHES, ELLIPSES, HYPHENS, POINTS, RAISED, LOWERED, SIGNS]
    + [c for c in CHANGED if c > "\x7f"]
    + ["\u2044", "\u3001", LETTER, MARK, DIGIT, SYMBOL, OTHER, ASTRAL]
)

# ---------------------------------------------------------------- what a token becomes


def no_soft_hyphens(token: str) -> str:
    return token.replace("\u00ad", "") or "-"


def closing(token: str) -> str:
    return token.replace("&apos;", "'").translate(_QUOTES)


def ampersand(token: str) -> str:
    return _AMP_ENTITY.sub("&", token)


def no_break(token: str) -> str:
    return token.replace(" ", "\u00a0")


def brackets(token: str) -> str:
    return no_break(token).replace("(", "-LRB-").replace(")", "-RRB-")


def always(token: str) -> Tidy:
    return lambda _: token


_AMP_ENTITY = re.compile("(?i)&amp;")
_QUOTES = str.maketrans(
    dict.fromkeys(LEFT, "`")
    | dict.fromkeys(RIGHT, "'")
    | dict.fromkeys(LEFT_DOUBLE, "``")
    | dict.fromkeys(RIGHT_DOUBLE, "''")
)

# ---------------------------------------------------------------- pieces of patterns

L = f"A-Za-z{LETTER}"
D = f"0-9{DIGIT}"
GAP = rf"[ \t{SPACE}]"
GAP_OR_END = rf"[ \t\n\u0085{SPACE}]"  # U+0085 is a token, "...", and yet the end of a line to what stands before it
APOS = r"(?:['\u0092\u2019]|(?i:&apos;))"
APOS_ETC = r"(?:['`\u0092\u2019\u0091\u2018\u201b]|(?i:&apos;))"
CHARACTER = rf"(?:[{L}{MARK}\u00ad]|&[aeiouAEIOU](?i:acute|grave|uml);)"
WORD = rf"{CHARACTER}(?:{CHARACTER}|[{D}])*(?:[.!?]{CHARACTER}(?:{CHARACTER}|[{D}])*)*"
VERB = rf"{APOS}(?:[msdMSD]|(?i:re|ve|ll))"  # it's, they've
NOT = rf"(?i:n){APOS_ETC}(?i:t)"
NUMBER = rf"(?:[{D}]+(?:[.:,{POINTS}][{D}]+)*|(?:[.:,{POINTS}][{D}]+)+)"
PARTICLE = rf"(?:[dDoOlL]{APOS_ETC}[{L}{D}])?"  # d'Artagnan, o'clock
THING = rf"{PARTICLE}[{L}{D}]+(?:[-_{HYPHENS}]{PARTICLE}[{L}{D}]+)*"
FIRM = r"[A-Z]+(?:(?:(?i:&amp;)|[+&])[A-Z]+)+"  # AT&T
ALLIES = r"(?i:(?:canada|sino|korean|eu|japan|non)-u\.s|u\.s\.-(?:u\.s\.s\.r|u\.k))"
LETTERS_WITH_PERIODS = rf"(?:{ALLIES}|[A-Za-z](?:\.[A-Za-z])*)"
HYPHENATED = r"[A-Za-z0-9][A-Za-z0-9.,\u00ad]*(?:-(?:[A-Za-z](?:\.[A-Za-z])+\.|[A-Za-z0-9\u00ad]+))+"
SLASHED = r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}(?:\\?/[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}){1,2}"
FRACTION = rf"(?:[{D}]{{1,4}}[- \u00a0])?[{D}]{{1,4}}(?:\\?/|\u2044)[{D}]{{1,4}}"
DATE = rf"[{D}]{{1,2}}[-/][{D}]{{1,2}}[-/][{D}]{{2,4}}"
PREFIX = r"(?:\([0-9]{2,3}\)[ \u00a0]?|(?:\+\+?)?(?:[0-9]{2,4}[- \u00a0])?[0-9]{2,4}[- \u00a0])"
PHONE = rf"{PREFIX}[0-9]{{3,4}}[- \u00a0]?[0-9]{{3,5}}"
PHONE_WITH_PERIODS = r"(?:(?:\+\+?)?[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5}"

NAME = r"[A-Za-z][A-Za-z0-9_:.\-]*"
TAG = rf"<(?:[!?][A-Za-z\-][^>\n]*|{NAME}(?: +{NAME}(?: *= *(?:'[^'\n]*'|\"[^\"\n]*\"))?)* */?|/{NAME}) *>"
BREAK = r' \t\n"<>|()'  # never inside a web address
END_OF_ADDRESS = rf"[^{BREAK}.!?{{}},\-]"
ADDRESS = rf"(?:[^{BREAK}]+{END_OF_ADDRESS}|{ASTRAL})"
WWW = rf"(?i:www)\.(?:[^{BREAK}.!?{{}},]+\.)+[a-zA-Z]{{2,4}}"
DOMAIN = rf"(?:[^{BREAK}`'!{{}}$,-_]+\.)+(?i:com|net|org|edu)"
HOST = rf"(?:[^{BREAK}{{}}.\u00a0]+\.)*[^{BREAK}{{}}.\u00a0]+"
MAIL = rf"(?:(?i:&lt;)|<)?[a-zA-Z0-9][^{BREAK}\u00a0{{}}]*@{HOST}(?:(?i:&gt;)|>)?"
STEM = rf"(?:{CHARACTER}|[{D}])+"
FILE = (
    rf"{STEM}(?:\.{STEM})*\.(?i:bat|bmp|c|class|cgi|cpp|dll|docx?|exe|gif|gz|h|html?|jar|java|jpe?g|mov|mp3|pdf|php|pl"
    r"|png|ppt|ps|py|sql|tar|txt|wav|x|xml|zip)"
)
FACE = r"[<>]?[:;=][-o*']?[()DPdpO\\{@|\[\]]"
EASTERN_FACE = r"[\^x=~<>]\.\[\^x=~<>\]|[-^x=~<>']_[-^x=~<>']|\([-^x=~<>'][_.]?[-^x=~<>']\)|\([\^x=~<>']-[\^x=~<>'`]\)"

# Abbreviations: those that may end a sentence, those that never do, those that are ones before a number only.
ENDING = (
    r"(?:(?i:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|mon|tues?|wed|thu|thurs|fri|ala|ariz|calif|colo|conn|ct|dak"
    r"|fla|ga|ind|kans?|ky|md|mich|minn|mo|mont|neb|nev|okla|penn|tenn|va|vt|wisc?|wyo|inc|cos?|corp|ltd|plc|rt|bancorp"
    r"|bhd|assn|univ|intl|sys|tel|est|ext|sq|jr|sr|bros|ed\.d|ph\.d|blvd|rd|esq|etc|al|seq|bldg)|(?i:pp?t)[ye](?i:s?)"
    r"|A(?i:z|rk)|D(?i:el)|I(?i:ll)|L(?i:a)|M(?i:ass|iss)|O(?i:re)|P(?i:a)|T(?i:ex)|W(?i:ash))\."
)
LEADING = (
    r"(?:(?i:mr|mrs|ms|drs?|profs?|sens?|reps?|attys?|lt|col|gen|messrs|govs?|adm|rev|maj|sgt|cpl|pvt|capt|ste?|ave|pres"
    r"|lieut|hon|brig|co?mdr|pfc|spc|supts?|det|mt|ft|adj|adv|asst|assoc|ens|insp|mlle|mme|msgr|sfc|vs|alex|wm|jos|cie"
    r"|a\.k\.a|cf|treas|ph|invt|elec|natl|dept)|(?i:m)[ft](?i:g))"
)
COUNTING = r"(?i:ca|figs?|prop|nos?|art|pp|op)\."
OPENER = (  # words that begin a sentence, so that a letter with a period before them has ended one
    r"(?:A(?i:bout|ccording|dditionally|fter|n|s|t|)|B(?i:ut)|E(?i:arlier)|H(?i:e|er|ere|owever)|I(?i:f|n|t)|L(?i:ast)"
    r"|M(?i:any|ore|r\.|s\.)|N(?i:ow)|O(?i:nce|ne|ther|ur)|S(?i:he|ince|o|ome|uch)"
    r"|T(?i:hat|he|heir|hen|here|hese|hey|his)|W(?i:e|hen|hile|hat)|Y(?i:et|ou))"
)

# ---------------------------------------------------------------- rules that may read far and fail

# Where one of these fails it would fail again at every later place of the same run: its beginning is read over by what
# it repeats. Without that knowledge a text of n characters without a space takes n² steps.
A_TAG, TAG_BEHIND_A_LETTER = rf"({TAG})", rf"([A-Za-z])\.{GAP_OR_END}+{TAG}{GAP_OR_END}"
A_HOST, A_HOST_WITH_PATH = rf"({WWW})", rf"({WWW}/{ADDRESS})"
A_DOMAIN, A_MAIL, A_FILE = rf"({DOMAIN}(?:/{ADDRESS})?)", rf"({MAIL})", rf"({FILE})(?:{GAP}|[\n.?!,])"
HYPHENATED_BEFORE_A_MARK, A_HYPHENATED = rf"({HYPHENATED}\.)[,;:\u3001]", rf"({HYPHENATED})"
_OPEN_TAG = r"<[!?][A-Za-z\-][^>\n]*"
_HOST_RUN = rf"(?i:www)\.(?:[^{BREAK}.!?{{}},]+\.)*[^{BREAK}.!?{{}},]*"
_HYPHEN_RUN = r"[A-Za-z0-9][A-Za-z0-9.,\u00ad]*"
RUNS = {
    A_TAG: _OPEN_TAG,
    TAG_BEHIND_A_LETTER: rf"[A-Za-z]\.{GAP_OR_END}+{_OPEN_TAG}",
    A_HOST: _HOST_RUN,
    A_HOST_WITH_PATH: _HOST_RUN,
    A_DOMAIN: rf"(?:[^{BREAK}`'!{{}}$,-_]+\.)*[^{BREAK}`'!{{}}$,-_]*",
    A_MAIL: rf"(?:(?i:&lt;)|<)?[a-zA-Z0-9][^{BREAK}\u00a0{{}}]*",
    A_FILE: rf"{STEM}(?:\.{STEM})*",
    HYPHENATED_BEFORE_A_MARK: _HYPHEN_RUN,
    A_HYPHENATED: _HYPHEN_RUN,
}

# ---------------------------------------------------------------- the rules

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + LETTER
_WORDS = _LETTERS + MARK + "\u00ad&"
_DIGITS = "0123456789" + DIGIT
_NAMES = _LETTERS + _DIGITS
_APOSTROPHES = "'\u0092\u2019&"
_QUOTES_ALL = "`" + _APOSTROPHES + LEFT + RIGHT + LEFT_DOUBLE + RIGHT_DOUBLE + LOW
_PRINTED = "".join(c for c in map(chr, range(33, 127)) if not c.isalnum())
_SINGLE = _PRINTED + SYMBOL + SIGNS + "\u2044\u3001" + "".join(c for c in CHANGED if c > "\x7f")
_ALL = "".join(map(chr, range(128))) + MENTIONED

ROWS: list[tuple[str, str, Tidy | None]] = [  # (first characters, pattern, what the token becomes)
    ("cCfF", r"((?i:c\+\+|[cf]\#))", None),
    ("cC", r"(?i:(can)not)", None),
    ("'", r"(?i:('t)(?:was|is))", None),
    ("gGwW", r"(?i:(gon|wan)na)", None),
    ("gG", r"(?i:(got)ta)", None),
    ("gGlL", r"(?i:(gim|lem)me)", None),
    ("<", A_TAG, no_break),
    (DASHES + "&", rf"([{DASHES}]|(?i:&(?:md|mdash|ndash);))", always("--")),
    ("&", r"((?i:&amp;))", always("&")),
    ("&", r"((?i:&(?:ht|tl|ur|lr|qc|ql|qr|odq|cdq|\#[0-9]+);))", None),
    (_WORDS, rf"({WORD}){VERB}", no_soft_hyphens),
    (_WORDS, rf"([A-Za-z\u00ad]*[A-MO-Za-mo-z]\u00ad*){NOT}", no_soft_hyphens),
    (_WORDS, rf"({WORD})", no_soft_hyphens),
    # words that begin or end with an apostrophe, or have one inside
    (_APOSTROPHES, rf"({APOS}(?i:n)(?:{APOS})?)", None),
    (_APOSTROPHES, rf"({APOS}(?:[2-9]0(?i:s)|(?i:em|till?|cause)))", None),
    ("lLdDjJ", rf"([lLdDjJ]{APOS})", None),
    ("dDsSoO", rf"((?i:dunkin|somethin|ol){APOS})", None),
    (_LETTERS, rf"([A-HJ-XZn]{APOS_ETC}[{L}][{L}]+)", None),
    (_LETTERS, rf"([{L}]+[aeiouyAEIOUY]{APOS_ETC}[aeiouA-Z][{L}]*)", None),
    (_LETTERS, r"((?i:cont'd\.?|nor'easter|c'mon|e'er|s'mores|ev'ry|li'l|nat'l))", None),
    ("oO", rf"((?i:o){APOS_ETC}(?i:o))", None),
    ("yY", rf"((?i:y){APOS})[{L}]", None),
    # addresses
    ("hH", rf"((?i:https?)://(?:[^{BREAK}{{}}]+{END_OF_ADDRESS}|{ASTRAL}))", None),
    ("wW", A_HOST, None),
    ("wW", A_HOST_WITH_PATH, None),
    (_ALL, A_DOMAIN, None),
    (_NAMES + "<&", A_MAIL, None),
    ("@", r"(@[a-zA-Z_][a-zA-Z_0-9]*)", None),
    ("#", rf"(\#{CHARACTER}+)", None),
    # contractions on their own
    (_APOSTROPHES, rf"({VERB})[^A-Za-z]", closing),
    ("nN", rf"({NOT})[^A-Za-z]", closing),
    # numbers
    (_DIGITS, rf"({DATE})", None),
    (_DIGITS + "+-.:," + POINTS, rf"([-+]?{NUMBER})", no_soft_hyphens),
    (SIGNS + RAISED + LOWERED, rf"([{SIGNS}]?(?:[{RAISED}]+|[{LOWERED}]+))", None),
    (_DIGITS, rf"({FRACTION})", no_break),
    # words of the Treebank
    ("-", r"((?i:-[lr][rcs]b-))", None),
    ("cCpPaAsS", rf"((?i:c\.d\.s|pro-|anti-|s(?:&|&amp;)(?:p-500|ls)|cap{APOS}n|c{APOS}est))", ampersand),
    (_NAMES, rf"({SLASHED})", None),
    (_LETTERS + "$", r"([A-Z]*\$)", None),
    # abbreviations
    (_LETTERS, rf"([A-Za-z])\.{GAP_OR_END}+{OPENER}{GAP_OR_END}", None),
    (_LETTERS, TAG_BEHIND_A_LETTER, None),
    (_LETTERS, rf"({COUNTING}){GAP_OR_END}?[{D}]", None),
    ("pP", rf"((?i:pt)[eyEY]\.){GAP}(?i:ltd|lim)", None),
    (_LETTERS, rf"({ENDING})(?s:..)", None),
    (_LETTERS, rf"({ENDING})", None),
    (_LETTERS, rf"({LEADING}\.)", None),
    (_LETTERS, rf"({LETTERS_WITH_PERIODS}\.)", None),
    (_LETTERS, rf"({LETTERS_WITH_PERIODS}){GAP_OR_END}", None),
    (_LETTERS, rf"({LEADING}){GAP}", None),
    (_APOSTROPHES, rf"({APOS}[0-9][0-9]){GAP_OR_END}", None),
    (_WORDS + _DIGITS, A_FILE, None),
    (_WORDS, rf"({WORD}\.)[,;:\u3001]", no_soft_hyphens),
    (_DIGITS + "+(", rf"({PHONE})", brackets),
    (_DIGITS + "+", rf"({PHONE_WITH_PERIODS})", None),
    # punctuation and faces
    ('"&', r'("|&quot;)[A-Za-z0-9$]', always("``")),
    ('"&', r'("|&quot;)', always("''")),
    ("&", r"((?i:&quot;))", None),
    ("<&", r"(<|(?i:&lt;))", always("<")),
    (">&", r"(>|(?i:&gt;))", always(">")),
    ("<>:;=", rf"({FACE})[^A-Za-z0-9]", brackets),
    ("^x=~<>-'(", rf"({EASTERN_FACE})", brackets),
    ("-", r"(-{3,4})(?!-)", always("--")),
    ("-", r"(-+)", None),
    ("." + ELLIPSES, rf"(\.{{3,5}}|(?:\.[ \u00a0]){{2,4}}\.|[{ELLIPSES}])", always("...")),
    ("@#_*", r"(@+|\#+|_+|\*+)", None),
    ("\\", r"((?:\\\*){1,3})", None),
    ("?!", r"([?!]+)", None),
    # hyphenated words, names, firms
    (_NAMES, HYPHENATED_BEFORE_A_MARK, no_soft_hyphens),
    (_NAMES, A_HYPHENATED, no_soft_hyphens),
    (_NAMES, rf"({THING}\.)[,;:\u3001]", None),
    (_NAMES, rf"({THING})", None),
    (_LETTERS, rf"({FIRM}\.)[,;:\u3001]", ampersand),
    (_LETTERS, rf"({FIRM})", ampersand),
    # quotes
    ("'", r"(')[A-Za-z][^ \t\n\u00a0]", always("`")),
    (_APOSTROPHES, rf"({VERB})", closing),
    ("nN", rf"({NOT})", closing),
    (_QUOTES_ALL, rf"(''|[`{LEFT}{RIGHT}{LEFT_DOUBLE}{RIGHT_DOUBLE}{LOW}]{{1,2}}|{APOS})", closing),
    ("<>", "(<<|>>)", None),
    # a single character; spaces
    (_SINGLE, rf"([{re.escape(_SINGLE)}])", lambda token: CHANGED.get(token, token)),
    (" \t" + SPACE, rf"({GAP}+)", always("")),
    ("&", r"((?i:&nbsp;))", always("")),
]

# Of chunks that are ASCII letters, with a period or comma behind them or not, only these are not simply a word.
SEVERAL_WORDS = frozenset(["cannot", "gonna", "wanna", "gotta", "gimme", "lemme"])
ABBREVIATION = re.compile(rf"{ENDING}|{LEADING}\.|[A-Za-z]\.")


def rules_by_first_character() -> dict[str, tuple[Rule, ...]]:
    runs = {pattern: re.compile(run).match for pattern, run in RUNS.items()}
    rules = [(starts, Rule(re.compile(pattern).match, tidy, runs.get(pattern))) for starts, pattern, tidy in ROWS]
    return {first: tuple(rule for starts, rule in rules if first in starts) for first in _ALL}
