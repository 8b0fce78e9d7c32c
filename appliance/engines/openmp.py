"""How numeric libraries' threads wait: a moment on the core, then asleep. Owns environment variables, knows no engine.

llama.cpp and CTranslate2 meet at a barrier many times in one step. Threads that go to sleep at once pay for each
meeting; threads that spin as long as libgomp likes take the cores from the other engines. A short spin costs neither
(measured on two cores, one sequence: 9 to 11 ms a step for SmolLM2-135M against 39 asleep at once; 28 against 56 for
Qwen 0.5B). It must bridge what the parts of a prompt's step differ by: with a fifth of this spin the first step after
a pause, in which both cores have slept, took 75 to 82 ms instead of 52, and 135 instead of about 115.

numpy's OpenBLAS is given one thread. Its helpers spin for about 100 ms after each product, and the products here (mel
filters) are small: with a second thread each transcript kept the other core busy for nothing.
"""

import os

_SPIN_COUNT = "5000"  # turns of libgomp's loop, a fraction of a millisecond


def wait_briefly() -> None:
    """Set the variables, where nobody has. Must come before numpy and the first OpenMP library are loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
