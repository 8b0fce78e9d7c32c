"""Colours. The palette keeps apart for people who cannot tell red from green; shapes say the same without it.

Endpoint blue, asr green-blue, llm purple, tts amber, output grey; vermilion means over budget.
"""

import os

from textual.theme import Theme

DARK_PARTS = {
    "part-endpoint": "#56b4e9",
    "part-asr": "#4fc9a4",
    "part-llm": "#cc79a7",
    "part-tts": "#e6a23c",
    "part-output": "#c9d1d9",
    "over": "#ff7a45",
    "fine": "#7fb8da",
    "faint": "#7d8590",
}
LIGHT_PARTS = {
    "part-endpoint": "#0072b2",
    "part-asr": "#00805d",
    "part-llm": "#a3487d",
    "part-tts": "#b26b00",
    "part-output": "#57606a",
    "over": "#c43e00",
    "fine": "#00598c",
    "faint": "#6e7781",
}

DARK = Theme(
    name="appliance-dark",
    primary="#56b4e9",
    secondary="#cc79a7",
    accent="#e6a23c",
    foreground="#e6edf3",
    background="#0d1117",
    surface="#131920",
    panel="#1c2530",
    warning="#e6a23c",
    error="#ff7a45",
    success="#56b4e9",
    dark=True,
    variables={**DARK_PARTS, "footer-key-foreground": "#e6a23c", "border-blurred": "#30363d"},
)
LIGHT = Theme(
    name="appliance-light",
    primary="#0072b2",
    secondary="#a3487d",
    accent="#b26b00",
    foreground="#1f2328",
    background="#ffffff",
    surface="#f6f8fa",
    panel="#eaeef2",
    warning="#b26b00",
    error="#c43e00",
    success="#0072b2",
    dark=False,
    variables={**LIGHT_PARTS, "footer-key-foreground": "#b26b00", "border-blurred": "#d0d7de"},
)


def fitting() -> Theme:
    """Light where the terminal says that its background is (COLORFGBG), dark otherwise."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in ("7", "15") else DARK
