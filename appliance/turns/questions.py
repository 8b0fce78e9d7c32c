"""What an answer asks of the person: anything at all, or a plain yes or no.

Pure, over the words of the answer that was heard last; a turn that follows a question may be short.
"""

from appliance.turns.completeness import words_of

# Words that open a question which yes or no answers.
_OPENERS = {
    "en": "is are was were am do does did have has had can could will would shall should may might "
    "isn't aren't don't doesn't didn't haven't hasn't can't couldn't won't wouldn't shouldn't",
    "de": "ist sind war waren hat haben hast habt kann kannst können soll sollen sollte will willst wollen möchtest "
    "möchten darf dürfen wird werden gibt",
    "es": "es son está están fue hay tienes tiene quieres quiere puedo puede puedes debo debería",
    "fr": "est est-ce es êtes a as avez peux pouvez puis dois devez veux voulez souhaitez",
    "it": "è sono sei ha hai avete vuoi vuole volete posso puoi devo dovrei c'è",
}


def is_question(answer: str) -> bool:
    """Whether `answer` ends by asking something."""
    return answer.rstrip().endswith("?")


def is_yes_no_question(answer: str, language: str = "en") -> bool:
    """Whether it ends in a question that wants yes or no."""
    if not is_question(answer):
        return False
    text = answer.rstrip().rstrip("?")
    last = max(text.rfind(mark) for mark in ".!?")
    words = words_of(text[last + 1 :])
    openers = _OPENERS.get(language, "").split()
    return any(word in openers for word in words[:1]) or (
        len(words) > 1 and words[0] in ("and", "so", "or") and words[1] in openers
    )
