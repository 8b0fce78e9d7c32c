"""The chat template, cut into strings that never change: head, middle, between.

A conversation is head + words + middle + reply + between + words + middle + … The head (system prompt and the
opening of the person's first turn) is the same for all sessions, so its KV is shared. Owns the rendering of the
template in a sandbox and the probes that find the cuts; it knows no tokens.
"""

from dataclasses import dataclass
from typing import Any

from appliance.errors import ModelFileError

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """`head` words `middle` reply `between` words `middle` … `lead` goes directly before words ("" or a space)."""

    head: str
    middle: str
    between: str
    lead: str = ""


def chat_format(template: str, system: str, *, bos: str = "", eos: str = "") -> ChatFormat:
    """Cut `template` for the system prompt `system`.

    A template that knows no system role, or repeats it elsewhere, gets the prompt at the head of the person's first
    words. Raises ModelFileError when neither way yields stable cuts.
    """
    render = _renderer(template, bos, eos)
    problem = ""
    for fold in (False, True):
        try:
            return _cut(render, system, fold)
        except _NotStable as error:
            problem = str(error)
    raise ModelFileError(
        f"the model's chat template cannot be used: {problem}", 'set chat_format = "chatml" or choose another model'
    )


class _NotStable(Exception):
    pass


def _cut(render: Any, system: str, fold: bool) -> ChatFormat:
    users = [f"Quartz{i}wick" for i in range(3)]
    replies = [f"Fjord{i}vex" for i in range(2)]

    def messages(turns: int) -> list[dict[str, str]]:
        out = [] if fold or not system else [{"role": "system", "content": system}]
        for i in range(turns):
            first = f"{system}\n\n" if fold and i == 0 and system else ""
            out.append({"role": "user", "content": first + users[i]})
            if i < turns - 1:
                out.append({"role": "assistant", "content": replies[i]})
        return out

    one, three = render(messages(1)), render(messages(3))
    head, middle = _around(one, users[0])
    marks = [users[0], replies[0], users[1], replies[1], users[2]]
    places = [three.find(mark) for mark in marks]
    if any(place < 0 for place in places) or places != sorted(places):
        raise _NotStable("it loses or reorders messages")
    gaps = [
        three[places[i] + len(marks[i]) : places[i + 1] if i + 1 < len(marks) else len(three)]
        for i in range(len(marks))
    ]
    if three[: places[0]] != head or gaps[1] != gaps[3] or gaps[4] != middle:
        raise _NotStable("turns are not rendered alike")
    if system and system not in head:
        raise _NotStable("it drops the system prompt")
    between = gaps[1]
    lead = " " if head.endswith(" ") and between.endswith(" ") else ""
    return ChatFormat(head.removesuffix(lead), middle, between.removesuffix(lead), lead)


def _around(text: str, mark: str) -> tuple[str, str]:
    before, found, after = text.partition(mark)
    if not found:
        raise _NotStable("it loses the person's words")
    return before, after


def _renderer(template: str, bos: str, eos: str) -> Any:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    # A date in the head would spoil the shared prefix once a day; templates fall back to their own fixed one.
    environment.globals.update(raise_exception=refuse)
    try:
        compiled = environment.from_string(template)
    except jinja2.TemplateError as error:
        raise ModelFileError(
            f"the model's chat template does not parse: {error}", 'set chat_format = "chatml"'
        ) from error

    def render(messages: list[dict[str, str]]) -> str:
        try:
            return compiled.render(
                messages=messages,
                add_generation_prompt=True,
                enable_thinking=False,
                tools=None,
                bos_token=bos,
                eos_token=eos,
            )
        except (jinja2.TemplateError, TypeError, KeyError, ValueError) as error:
            raise _NotStable(f"it fails with {error}") from error

    return render
