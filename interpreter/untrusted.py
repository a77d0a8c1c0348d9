"""Text from a service is data: here it is made safe to print and to hand on. It says nothing about what the text means.

The result holds no escape sequence, no control character but newline and tab, no character that reorders what a
reader sees, and nothing that cannot be written as UTF-8. It is bounded, and kept at its tail: the end of a log says
why a process died.
"""

import re

# ECMA-48: control sequences (CSI), control strings (OSC, DCS, SOS, PM, APC, up to BEL or ST), and the other
# escapes, each from ESC or from its one-character form. An unended string takes the rest of its line and no more.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)

# C0 and C1 without newline and tab; line and paragraph separators; soft hyphen and zero-width characters, which hide
# text; bidi marks, embeddings, overrides and isolates (UAX #9); tags, which smuggle ASCII; lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str, most: int = 2000) -> str:
    """Return text safe to show, at most ``most`` characters of it, its end.

    Where something was cut, a first line says how many characters; it does not count towards ``most``.
    """
    # What lies further back than this cannot reach the tail, unless nearly all is escapes: bounds the work.
    near = text[-8 * most - 8192 :]
    safe = _UNSEEN.sub("", _ESCAPE.sub("", near.replace("\r\n", "\n").replace("\r", "\n"))).strip("\n")
    cut = len(text) - len(near) + max(0, len(safe) - most)
    return f"[{cut} characters cut]\n{safe[len(safe) - most :]}" if cut else safe
