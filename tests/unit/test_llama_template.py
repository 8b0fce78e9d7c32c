"""Chat templates cut into stable strings."""

import pytest

from appliance.engines.llama.template import CHATML, chat_format
from appliance.errors import ModelFileError

LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
# No system role: it refuses one, as some families do.
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}"
    "{% endif %}{% set role = 'model' if m['role'] == 'assistant' else m['role'] %}"
    "<start_of_turn>{{ role }}\n{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
SPACED = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% else %}{{ raise_exception('x') }}{% endif %}"
    "{% endfor %}"
)


def test_chatml() -> None:
    form = chat_format(CHATML, "Be brief.")
    assert form.head == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
    assert form.middle == "<|im_end|>\n<|im_start|>assistant\n"
    assert form.between == "<|im_end|>\n<|im_start|>user\n"


def test_llama3_keeps_its_bos_in_the_head() -> None:
    form = chat_format(LLAMA3, "Be brief.", bos="<|begin_of_text|>")
    assert form.head.startswith("<|begin_of_text|><|start_header_id|>system")
    assert form.between.endswith("user<|end_header_id|>\n\n")


def test_without_a_system_role_the_prompt_leads_the_first_words() -> None:
    form = chat_format(GEMMA, "Be brief.", bos="<bos>")
    assert form.head == "<bos><start_of_turn>user\nBe brief.\n\n"
    assert form.middle == "<end_of_turn>\n<start_of_turn>model\n"
    assert form.between == "<end_of_turn>\n<start_of_turn>user\n"


def test_thinking_is_switched_off_where_the_template_can() -> None:
    assert chat_format(THINKING, "x").middle.endswith("assistant\n<think>\n\n</think>\n\n")


def test_a_space_before_words_goes_with_the_words() -> None:
    form = chat_format(SPACED, "Be brief.", bos="<s>", eos="</s>")
    assert (form.head, form.lead) == ("<s>[INST] Be brief.\n\n", "")
    assert form.between == "</s>[INST] "


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[-1].content }}",  # forgets the past
        "{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}",  # numbers its turns
        "{{ raise_exception('never') }}",
    ],
)
def test_templates_without_stable_cuts_are_refused(template: str) -> None:
    with pytest.raises(ModelFileError):
        chat_format(template, "Be brief.")


def test_a_template_that_does_not_parse_is_named() -> None:
    with pytest.raises(ModelFileError, match="does not parse"):
        chat_format("{% for %}", "x")


def test_templates_cannot_reach_the_machine() -> None:
    with pytest.raises(ModelFileError):
        chat_format("{{ ''.__class__.__mro__[1].__subclasses__() }}{{ messages[0].content }}", "x")
