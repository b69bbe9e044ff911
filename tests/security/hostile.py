"""Texts that would act on a terminal or hide from its reader, and what must be left of any text that is shown."""

from __future__ import annotations

import re
from typing import Final

TERMINAL: Final = {
    "osc 52 clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "osc 8 link": "\x1b]8;;http://evil.example/\x1b\\https://good.example\x1b]8;;\x1b\\",
    "osc 0 title": "\x1b]0;owned\x07",
    "osc 2 title": "\x1b]2;owned\x1b\\",
    "osc 7 directory": "\x1b]7;file:///etc\x07",
    "osc 133 prompt mark": "\x1b]133;A\x07",
    "osc 1337 file": "\x1b]1337;File=inline=1:AAAA\x07",
    "dcs": "\x1bP+q544e\x1b\\",
    "dcs decrqss": "\x1bP$qm\x1b\\",
    "apc": "\x1b_G a=T\x1b\\",
    "pm": "\x1b^private\x1b\\",
    "sos": "\x1bXstring\x1b\\",
    "report cursor": "\x1b[6n",
    "report device": "\x1b[c",
    "clear": "\x1b[2J\x1b[3J\x1b[H",
    "alternative screen": "\x1b[?1049h",
    "mouse": "\x1b[?1000h\x1b[?1006h",
    "end of a paste": "\x1b[201~",
    "paste mode": "\x1b[?2004l",
    "cursor up": "\x1b[5A\x1b[2Kharmless",
    "scroll region": "\x1b[1;5r",
    "hidden": "\x1b[8msecret\x1b[0m",
    "reset": "\x1bc",
    "keypad": "\x1b=",
    "charset": "\x1b(0\x0e",
    "c1 csi": "\x9b2J",
    "c1 osc": "\x9d0;owned\x9c",
    "c1 dcs": "\x90q\x9c",
    "carriage return": "rm -rf ~\rls      ",
    "backspace": "rm -rf ~\b\b\b\b\b\b\b\bls",
    "delete": "ls\x7f\x7frm",
    "bell": "\a",
    "vertical tab": "one\x0btwo\x0cthree",
    "nul": "a\0b",
    "next line": "one\x85two",
    "line separator": "one\u2028two\u2029three",
}
UNSEEN: Final = {
    "bidi override": "a\u202egpj.exe\u202c",
    "bidi isolate": "if x\u2066 // \u2069\u2066",
    "marks": "a\u200e\u200f\u061cb",
    "zero width": "r\u200bm \u2060-rf",
    "joiners in ascii": "r\u200dm\u200c x",
    "bom inside": "rm\ufeff -rf",
    "soft hyphen": "r\u00adm",
    "tags": "ls" + "".join(chr(0xE0000 + ord(char)) for char in "; rm -rf ~"),
    "variants": "a\ufe00\ufe01\ufe02",
    "more variants": "a\U000e0100\U000e01ef",
    "fillers": "a\u3164\u115f\u1160\uffa0b",
    "invisible operators": "f\u2061\u2062\u2063\u2064(x)",
    "old formatting": "a\u206a\u206fb",
    "annotations": "\ufff9a\ufffab\ufffb",
    "a lone surrogate": "a\ud800b",
}
HOSTILE: Final = {**TERMINAL, **UNSEEN}

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]|[ -~]\u200d|[ -~]\u200c"
)


def left_over(shown: str, *, has_colours: bool = False) -> list[str]:
    """Return what of a shown text is neither visible nor a line end or a tab."""
    return _BAD.findall(_COLOURS.sub("", shown) if has_colours else shown)
