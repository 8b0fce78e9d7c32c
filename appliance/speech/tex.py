"""Formulas as a model writes them in TeX, into signs and words that the normaliser reads."""

import re

_NAMED = {
    "times": "×", "cdot": "×", "div": "÷", "pm": "±", "pi": "π", "infty": "∞", "approx": "≈", "neq": "≠", "ne": "≠",
    "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "rightarrow": "→", "to": "→", "ldots": "…", "dots": "…",
    "cdots": "…", "degree": "°", "circ": "°", "left": "", "right": "", "quad": "", "qquad": "",
}  # fmt: skip
_RULES = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1 over \2 "),
        (r"\\sqrt\s*\{([^{}]*)\}", r" the square root of \1 "),
        (r"\\(?:text|mathrm|mathbf|boxed|operatorname|textbf|mathit)\s*\{([^{}]*)\}", r" \1 "),
        (r"\^\s*\{([^{}]*)\}", r"^\1"),
        (r"_\s*\{([^{}]*)\}", r" \1"),
    )
)


def plain_formula(text: str) -> str:
    """`\\frac{1}{2}` -> "1 over 2"; commands it does not know are said by their names."""
    for _ in range(4):  # braces nest
        before = text
        for pattern, said in _RULES:
            text = pattern.sub(said, text)
        if text == before:
            break
    text = re.sub(r"\\([A-Za-z]+)", lambda m: f" {_NAMED.get(m[1], m[1])} ", text)
    return " ".join(re.sub(r"[\\{}_&]", " ", text).split())
