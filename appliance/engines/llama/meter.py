"""Running measures of the steps: how long, how much of it Python, how many tokens. Numbers in, numbers out."""

import time
from collections import deque

_WINDOW_S = 2.0


class Meter:
    """Totals since the start, and rates over the last two seconds."""

    def __init__(self) -> None:
        self.steps = 0
        self.tokens = 0
        self.step_s = 0.0  # whole steps
        self.native_s = 0.0  # inside llama.cpp
        self.own_cpu_s = 0.0  # processor time of the thread outside llama.cpp
        self.step_ms = 0.0  # the newest step
        self._recent: deque[tuple[float, int]] = deque()

    @property
    def overhead_ms(self) -> float:
        """Mean processor time of a step spent outside llama.cpp; what other processes take does not count."""
        return self.own_cpu_s / self.steps * 1000 if self.steps else 0.0

    def native(self, seconds: float, cpu_s: float) -> None:
        self.native_s += seconds
        self.own_cpu_s -= cpu_s

    def step(self, seconds: float, cpu_s: float, tokens: int) -> None:
        self.steps += 1
        self.own_cpu_s += cpu_s
        self.tokens += tokens
        self.step_s += seconds
        self.step_ms = seconds * 1000
        now = time.monotonic()
        self._recent.append((now, tokens))
        while self._recent and self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def tokens_per_s(self) -> float:
        """Tokens evaluated a second, prompts included, over the last two seconds."""
        now = time.monotonic()
        return sum(tokens for at, tokens in self._recent if at >= now - _WINDOW_S) / _WINDOW_S
