"""Is each noun of a caption really in its image, and is its box right?

from groundling import audit, load_grounder

auditor = audit.Auditor.of(load_grounder())
for one in auditor.audit_text("photo.jpg", "a man on a horse with a hat"):
    print(one.phrase, one.verdict, one.evidence, one.box)
"""

from __future__ import annotations

from groundling.audit.auditor import Auditor, PhraseVerdict
from groundling.audit.verdicts import CANNOT_TELL, GROUNDED, NOT_THERE, VERDICTS, WRONG_PLACE, Thresholds

__all__ = [
    "CANNOT_TELL",
    "GROUNDED",
    "NOT_THERE",
    "VERDICTS",
    "WRONG_PLACE",
    "Auditor",
    "PhraseVerdict",
    "Thresholds",
]
